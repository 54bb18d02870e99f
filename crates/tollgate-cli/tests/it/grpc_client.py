"""Asks a service: health; limits by what its reflection says, as a client that has no .proto; and
Kuadrant's service by stubs that are made of its .proto."""

import pathlib
import sys
import tempfile
from importlib import resources

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_tools import protoc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database as v1alpha

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"
KUADRANT = "kuadrant.service.ratelimit.v1.RateLimitService"


def main(address, protos):
    channel = grpc.insecure_channel(address)
    health = health_pb2_grpc.HealthStub(channel)
    for name in ["", "ratelimit", SERVICE, KUADRANT]:
        said = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
        print("health", name or "-", health_pb2.HealthCheckResponse.ServingStatus.Name(said.status))
    watch = health.Watch(health_pb2.HealthCheckRequest(service="ratelimit"), timeout=10)
    print("watch", next(watch).status)
    watch.cancel()

    database = v1alpha.ProtoReflectionDescriptorDatabase(channel)
    # The protocol is v1; its messages are the same.
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

    kuadrant(channel, protos)


def kuadrant(channel, protos):
    """Looks, reserves, commits and reports by stubs made of the .proto files."""
    sys.path.insert(0, stubs_of(protos))
    from envoy.service.ratelimit.v3.rls_pb2 import RateLimitRequest
    from kuadrant.service.ratelimit.v1.kuadrantrls_pb2 import CommitRequest, ReserveRequest
    from kuadrant.service.ratelimit.v1.kuadrantrls_pb2_grpc import RateLimitServiceStub

    stub = RateLimitServiceStub(channel)

    def call(method, question, **fields):
        request = question(domain="shop", **fields)
        request.descriptors.add().entries.add(key="user", value="bob")
        return method(request, timeout=10)

    print("checked", call(stub.CheckRateLimit, RateLimitRequest).overall_code)
    held = call(stub.Reserve, ReserveRequest, amount=2, ttl={"seconds": 30})
    print("reserved", held.code, len(held.reservation_id) > 20)
    print("denied", call(stub.Reserve, ReserveRequest, amount=2).code)
    fields = {"reservation_id": held.reservation_id, "actual_amount": 1}
    used = call(stub.Commit, CommitRequest, **fields)
    print("committed", used.reservation_released)
    unknown = call(stub.Commit, CommitRequest, reservation_id="x", actual_amount=1)
    print("unknown", unknown.reservation_released)
    checked = call(stub.CheckRateLimit, RateLimitRequest)
    print("checked", checked.statuses[0].limit_remaining)
    print("reported", call(stub.Report, RateLimitRequest, hits_addend=5).overall_code)
    print("checked", call(stub.CheckRateLimit, RateLimitRequest).overall_code)


def stubs_of(protos):
    """Makes the stubs of all .proto files below a folder, and answers where they are."""
    folder = tempfile.mkdtemp()
    known = str(resources.files("grpc_tools") / "_proto")
    files = [str(path) for path in sorted(pathlib.Path(protos).rglob("*.proto"))]
    includes = [f"-I{protos}", f"-I{known}"]
    outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    if protoc.main(["protoc", *includes, *outputs, *files]) != 0:
        sys.exit("protoc failed")
    return folder


main(*sys.argv[1:])
