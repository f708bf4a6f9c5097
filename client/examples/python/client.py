"""All of it with the `factord` package, which streams, retries and decodes by itself: client.py ADDRESS"""

import concurrent.futures
import os
import sys

import factord
import grpc
import numpy as np


def check(name: str, a: np.ndarray, q: np.ndarray, r: np.ndarray, bound: float) -> None:
    residual = np.linalg.norm(a - q @ r) / np.linalg.norm(a)
    orthogonality = np.linalg.norm(q.swapaxes(-1, -2) @ q - np.eye(q.shape[-1]), axis=(-2, -1)).max()
    print(f"{name}: |A-QR|/|A| {residual:.1e}, |Q'Q-I| {orthogonality:.1e}")
    if not (residual < bound and orthogonality < 10 * bound):
        sys.exit(f"{name}: the factors are wrong")


rng = np.random.default_rng(4)
ca, certificate, key, token = (os.environ.get(f"FACTORD_{name}") for name in ("CA", "CERT", "KEY", "TOKEN"))
credentials = factord.tls_credentials(ca, certificate, key) if ca else None
retry = factord.RetryPolicy(max_attempts=100)
with factord.Client(sys.argv[1], credentials=credentials, token=token if ca else None, retry=retry) as client:
    a = rng.standard_normal((1000, 32, 32)).astype(np.float32)
    check("batch", a, *client.qr(a, timeout=60), bound=1e-6)

    a = rng.standard_normal((4000, 1000))
    check("stream", a, *client.qr(a, timeout=120), bound=1e-13)  # over 4 MiB: the client streams it

    def blocks():  # from files, a database, a simulation: never all of them in memory
        for _ in range(100):
            rows = rng.standard_normal((10_000, 5))
            yield rows, rows @ np.arange(5.0) + 1e-3 * rng.standard_normal(10_000)

    fit = client.reduce_rows(blocks(), solve=True, standard_errors=True, timeout=120)
    print(f"rows: {fit.rows} of them, x = {np.round(fit.x, 3)}, rank {fit.rank}")
    if not (np.abs(fit.x - np.arange(5)) < 10 * fit.standard_errors).all():
        sys.exit("rows: x is wrong")

    try:
        client.qr(a[:4, :4], "raw", sign="nonnegative")
        sys.exit("refused: it was not")
    except factord.FactordError as error:
        print(f"refused: {error.code.name}, {error.field}")

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: client.qr(a[:300, :300], "r", timeout=60), range(16)))
    print(f"busy: {len(answers)} calls answered")

    try:
        client.qr(a[:1000], timeout=0.001)
        sys.exit("late: it was not")
    except factord.FactordError as error:
        print(f"late: {error.code.name}")
        if error.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
