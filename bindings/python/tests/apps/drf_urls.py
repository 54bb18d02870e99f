"""Pages of Django REST framework."""

from django.urls import re_path
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

from tollgate_limiter.drf import TollgateThrottle


class Page(APIView):
    authentication_classes = ()
    renderer_classes = (JSONRenderer,)
    throttle_classes = (TollgateThrottle,)

    def get(self, _request):
        return Response("hello")


urlpatterns = [re_path("", Page.as_view())]
