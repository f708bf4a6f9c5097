"""Factorizes 1000 matrices of 32 x 32 in one call, and checks the result: batch.py ADDRESS"""

import json
import sys

import numpy as np
from connection import connect
from factord.v1 import factord_pb2 as pb
from factord.v1 import factord_pb2_grpc

# The reply, Q and R, is 8 MB: more than the 4 MiB that a stub receives by default.
MESSAGE_BYTES = 64 << 20  # the server's own default limit

# gRPC's own retries: while a server restarts, say. They need a copy of the request. They do not know RetryInfo:
# errors.py does.
SERVICE_CONFIG = json.dumps({"methodConfig": [{
    "name": [{"service": "factord.v1.Factorization"}],
    "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"]},
}]})


def main() -> None:
    a = np.random.default_rng(1).standard_normal((1000, 32, 32)).astype("<f4")
    request = pb.FactorizeRequest(
        a=[pb.Tensor(dtype=pb.DTYPE_F32, dims=a.shape, data=a.tobytes())],
        qr=pb.QrOptions(q=pb.Q_MODE_REDUCED, r=True),
    )
    options = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.service_config", SERVICE_CONFIG),
        ("grpc.per_rpc_retry_buffer_size", MESSAGE_BYTES),
    ]
    with connect(sys.argv[1], *options) as channel:
        stub = factord_pb2_grpc.FactorizationStub(channel)
        response = stub.Factorize(request, timeout=60)

    factors = response.qr[0]
    q = np.frombuffer(factors.q.data, "<f4").reshape(factors.q.dims)
    r = np.frombuffer(factors.r.data, "<f4").reshape(factors.r.dims)
    residual = (np.linalg.norm(a - q @ r, axis=(1, 2)) / np.linalg.norm(a, axis=(1, 2))).max()
    orthogonality = np.linalg.norm(q.transpose(0, 2, 1) @ q - np.eye(32), axis=(1, 2)).max()
    print(f"batch: 1000 of 32x32, |A-QR|/|A| {residual:.1e}, |Q'Q-I| {orthogonality:.1e}")
    if not (residual < 1e-5 and orthogonality < 1e-5):
        sys.exit("batch: the factors are wrong")


main()
