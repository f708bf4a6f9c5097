"""What to do when a call fails: refused for good, refused for now, too late: errors.py ADDRESS"""

import concurrent.futures
import random
import sys
import time

import grpc
import numpy as np
from connection import connect
from factord.v1 import factord_pb2 as pb
from factord.v1 import factord_pb2_grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

refusals = 0


def detail(error: grpc.RpcError, kind):
    """The error's detail of this kind; an empty one where the server sent none."""
    found = kind()
    status = rpc_status.from_call(error)
    for packed in status.details if status else ():
        if packed.Unpack(found):
            break
    return found


def call_with_retries(method, request, seconds: float):
    """Tries again what was refused for now, after the delay that the server names, until the deadline."""
    global refusals
    deadline, backoff = time.monotonic() + seconds, 0.05
    while True:
        try:
            return method(request, timeout=deadline - time.monotonic())
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise  # no other error goes away by itself
            delay = detail(error, error_details_pb2.RetryInfo).retry_delay.ToNanoseconds() * 1e-9
            wait = delay + random.uniform(0, backoff)
            if time.monotonic() + wait >= deadline:
                raise
        refusals += 1
        time.sleep(wait)
        backoff = min(2 * backoff, 2)


def qr_request(a: np.ndarray) -> pb.FactorizeRequest:
    tensor = pb.Tensor(dtype=pb.DTYPE_F64, dims=a.shape, data=a.astype("<f8").tobytes())
    return pb.FactorizeRequest(a=[tensor], qr=pb.QrOptions(r=True))


def show_refusal(stub) -> None:
    request = qr_request(np.eye(4))
    request.a[0].data = request.a[0].data[:100]
    try:
        stub.Factorize(request, timeout=10)
    except grpc.RpcError as error:
        violation = detail(error, error_details_pb2.BadRequest).field_violations[0]
        print(f"refused: {error.code().name}, {violation.field}")
        if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
            raise
    else:
        sys.exit("refused: it was not")


def show_busy(stub) -> None:
    """16 calls at once: more than a server takes whose queue is short."""
    request = qr_request(np.random.default_rng(3).standard_normal((300, 300)))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: call_with_retries(stub.Factorize, request, 60), range(16)))
    print(f"busy: {len(answers)} calls answered, {refusals} refusals")


def show_deadline(stub) -> None:
    try:
        stub.Factorize(qr_request(np.ones((1000, 1000))), timeout=0.001)
    except grpc.RpcError as error:
        print(f"late: {error.code().name}")
        if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
    else:
        sys.exit("late: it was not")


with connect(sys.argv[1]) as channel:
    stub = factord_pb2_grpc.FactorizationStub(channel)
    show_refusal(stub)
    show_busy(stub)
    show_deadline(stub)
