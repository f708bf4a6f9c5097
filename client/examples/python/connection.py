"""A channel to a server, as these examples use it."""

import os
import pathlib

import grpc


def connect(address: str, *options: tuple[str, object]) -> grpc.Channel:
    """Encrypted where FACTORD_CA names a file; with a token where FACTORD_TOKEN holds one."""
    keepalive = [("grpc.keepalive_time_ms", 30_000), ("grpc.keepalive_timeout_ms", 10_000)]
    credentials = tls_credentials()
    if credentials is None:
        return grpc.insecure_channel(address, [*keepalive, *options])
    return grpc.secure_channel(address, credentials, [*keepalive, *options])


def tls_credentials() -> grpc.ChannelCredentials | None:
    ca, certificate, key = (file_named_by(name) for name in ("FACTORD_CA", "FACTORD_CERT", "FACTORD_KEY"))
    if ca is None:
        return None
    # Certificate and key are for mutual TLS; None elsewhere.
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    token = os.environ.get("FACTORD_TOKEN")
    if token:  # authorization: Bearer TOKEN, with every call
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))
    return credentials


def file_named_by(variable: str) -> bytes | None:
    path = os.environ.get(variable)
    return pathlib.Path(path).read_bytes() if path else None
