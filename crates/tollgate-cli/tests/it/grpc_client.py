"""Asks a service by what its reflection says, as a client that has no .proto: health, then limits."""

import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database as v1alpha

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
KUADRANT = "kuadrant.service.ratelimit.v1.RateLimitService"


def main(address):
    channel = grpc.insecure_channel(address)
    health = health_pb2_grpc.HealthStub(channel)
    for name in ["", "ratelimit", SERVICE, KUADRANT]:
        said = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
        print("health", name or "-", health_pb2.HealthCheckResponse.ServingStatus.Name(said.status))
    watch = health.Watch(health_pb2.HealthCheckRequest(service="ratelimit"), timeout=10)
    print("watch", next(watch).status)
    watch.cancel()

    database = v1alpha.ProtoReflectionDescriptorDatabase(channel)
    # What is spoken is v1, whose messages are the same.
    stub = channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=v1alpha.ServerReflectionResponse.FromString,
    )
    database._stub.ServerReflectionInfo = stub
    print("services", " ".join(sorted(database.get_services())))
    pool = DescriptorPool(database)
    method = pool.FindServiceByName(SERVICE).methods_by_name["ShouldRateLimit"]
    question, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    ask = channel.unary_unary(
        f"/{SERVICE}/ShouldRateLimit",
        request_serializer=question.SerializeToString,
        response_deserializer=answer.FromString,
    )
    request = question(domain="shop")
    request.descriptors.add().entries.add(key="user", value="ann")
    for _ in range(4):
        said = ask(request, timeout=10)
        print("asked", said.overall_code, said.statuses[0].limit_remaining)
    request.domain = ""
    try:
        ask(request, timeout=10)
    except grpc.RpcError as error:
        print("error", error.code().name, error.details())

    def call(name, **fields):
        method = pool.FindServiceByName(KUADRANT).methods_by_name[name]
        question, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        ask = channel.unary_unary(
            f"/{KUADRANT}/{name}",
            request_serializer=question.SerializeToString,
            response_deserializer=answer.FromString,
        )
        request = question(domain="shop", **fields)
        request.descriptors.add().entries.add(key="user", value="bob")
        return ask(request, timeout=10)

    print("checked", call("CheckRateLimit").overall_code)
    held = call("Reserve", amount=2, ttl={"seconds": 30})
    print("reserved", held.code, len(held.reservation_id) > 20)
    print("denied", call("Reserve", amount=2).code)
    used = call("Commit", reservation_id=held.reservation_id, actual_amount=1)
    print("committed", used.reservation_released)
    print("unknown", call("Commit", reservation_id="x", actual_amount=1).reservation_released)
    print("checked", call("CheckRateLimit").statuses[0].limit_remaining)
    print("reported", call("Report", hits_addend=5).overall_code)
    print("checked", call("CheckRateLimit").overall_code)


main(sys.argv[1])
