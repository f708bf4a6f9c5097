"""What both clients tell gRPC."""

from __future__ import annotations

from typing import Optional

STREAM_THRESHOLD = 4 << 20

# The stream keeps messages small by itself; gRPC's own 4 MiB would only get in the way of a higher stream_threshold.
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def metadata(client_name: Optional[str]) -> tuple[tuple[str, str], ...]:
    """Names the client: the server shares its time fairly between names."""
    return () if client_name is None else (("factord-client", client_name),)
