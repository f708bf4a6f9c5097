"""Client for factord: batched QR factorization and least squares as a service.

    import factord

    with factord.Client("127.0.0.1:50051") as client:
        q, r = client.qr(a)              # what numpy.linalg.qr(a) returns, batch dims included
        x = client.lstsq(a, b).x
        r = client.reduce_rows(blocks).r     # of a matrix of any height, a block of rows at a time

`Client` blocks and may be shared by threads; `AsyncClient` has the same methods for asyncio. What a server refuses, and
matrices with NaN or Inf, raise `FactordError`.
"""

from importlib.metadata import version as _version

from ._channel import tls_credentials
from ._errors import FactordError
from ._results import (
    BackendInfo,
    Explanation,
    LstsqResult,
    MatrixStatus,
    QRResult,
    ReducedRows,
    RowReduction,
    ServerInfo,
)
from ._retry import RetryPolicy
from .aio import AsyncClient
from .client import Client

__all__ = [
    "AsyncClient",
    "BackendInfo",
    "Client",
    "Explanation",
    "FactordError",
    "LstsqResult",
    "MatrixStatus",
    "QRResult",
    "ReducedRows",
    "RetryPolicy",
    "RowReduction",
    "ServerInfo",
    "tls_credentials",
]
__version__ = _version("factord")
