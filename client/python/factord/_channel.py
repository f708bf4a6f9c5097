"""What both clients tell gRPC."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional, Union

import grpc

PathLike = Union[str, "os.PathLike[str]"]

STREAM_THRESHOLD = 4 << 20

# The stream keeps messages small by itself; gRPC's own 4 MiB would only get in the way of a higher stream_threshold.
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def metadata(client_name: Optional[str], token: Optional[str]) -> tuple[tuple[str, str], ...]:
    """Names the client: the server shares its time fairly between names. And shows its token, where it has one."""
    entries = [] if client_name is None else [("factord-client", client_name)]
    if token is not None:
        entries.append(("authorization", f"Bearer {token.strip()}"))
    return tuple(entries)


def tls_credentials(
    ca: Optional[PathLike] = None, cert: Optional[PathLike] = None, key: Optional[PathLike] = None
) -> grpc.ChannelCredentials:
    """`credentials` for a client, from PEM files.

    ca         the CAs that the server's certificate is checked against; None: the system's
    cert, key  this client's own certificate, for a server that asks for one; both or neither
    """
    if (cert is None) != (key is None):
        raise ValueError("cert and key need each other")
    read = [None if path is None else Path(path).read_bytes() for path in (ca, key, cert)]
    return grpc.ssl_channel_credentials(*read)
