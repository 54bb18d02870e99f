"""A control plane: the aggregated discovery service of xDS, in the state-of-the-world protocol.

It prints its port, and then the version, the nonce, the error and the node of each request. Each line of its
input is a version and the rules, in JSON, that it sends from then on. With a folder of certificates
it asks clients for theirs.
"""

import json
import pathlib
import queue
import sys
import tempfile
import threading
from concurrent import futures
from importlib import resources

import grpc
from google.protobuf import json_format
from grpc_tools import protoc

TYPE = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"


def main(protos, certificates=None):
    with tempfile.TemporaryDirectory() as folder:
        files = [
            "envoy/config/core/v3/base.proto",
            "envoy/service/discovery/v3/ads.proto",
            "envoy/service/discovery/v3/discovery.proto",
            "google/rpc/status.proto",
            "ratelimit/config/ratelimit/v3/rls_conf.proto",
        ]
        known = str(resources.files("grpc_tools") / "_proto")
        made = protoc.main(["", f"-I{protos}", f"-I{known}", f"--python_out={folder}", *files])
        assert made == 0, "the .proto files are broken"
        sys.path.insert(0, folder)
        from envoy.service.discovery.v3 import discovery_pb2
        from ratelimit.config.ratelimit.v3 import rls_conf_pb2

    sent, streams, lock = [], [], threading.Lock()

    def stream(requests, _):
        own = queue.Queue()
        with lock:
            streams.append(own)
            for response in sent[-1:]:
                own.put(response)

        def read():
            for request in requests:
                error = " ".join(request.error_detail.message.split())
                known = [request.version_info, request.response_nonce, error]
                print(json.dumps([*known, request.node.id]), flush=True)

        threading.Thread(target=read, daemon=True).start()
        while True:
            yield own.get()

    method = grpc.stream_stream_rpc_method_handler(
        stream,
        request_deserializer=discovery_pb2.DiscoveryRequest.FromString,
        response_serializer=discovery_pb2.DiscoveryResponse.SerializeToString,
    )
    service = "envoy.service.discovery.v3.AggregatedDiscoveryService"
    server = grpc.server(futures.ThreadPoolExecutor(4))
    handlers = {"StreamAggregatedResources": method}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    if certificates:
        folder = pathlib.Path(certificates)
        key, chain, authority = [
            (folder / name).read_bytes() for name in ("tls.key", "tls.crt", "ca.crt")
        ]
        secured = grpc.ssl_server_credentials([(key, chain)], authority, True)
        print(server.add_secure_port("127.0.0.1:0", secured), flush=True)
    else:
        print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    for line in sys.stdin:
        version, rules = json.loads(line)
        response = discovery_pb2.DiscoveryResponse(
            version_info=version, type_url=TYPE, nonce=f"nonce of {version}"
        )
        for each in rules:
            resource = response.resources.add()
            resource.type_url = TYPE
            config = json_format.ParseDict(each, rls_conf_pb2.RateLimitConfig())
            resource.value = config.SerializeToString()
        with lock:
            sent.append(response)
            for each in streams:
                each.put(response)
    server.stop(None)


main(*sys.argv[1:])
