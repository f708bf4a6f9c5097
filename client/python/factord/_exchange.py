"""A bidirectional call that one thread drives: it sends, and between messages has the replies that came."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable, Optional

import grpc
from google.protobuf.message import Message

from ._errors import from_rpc

_AHEAD = 2  # messages that wait to be taken by gRPC: one is made while another leaves


class Exchange:
    """A running call; a context manager, whose end cancels what has not ended.

    gRPC takes messages in a thread of its own, and replies are read in another, so that the server never waits for us.
    The caller's code, which makes the messages, stays in the caller's thread.
    """

    def __init__(self, rpc: Callable[..., Any], timeout: Optional[float], metadata: Any) -> None:
        self._changed = threading.Condition()
        self._messages: deque[Message] = deque()
        self._complete = False  # no more messages will come
        self._replies: deque[Message] = deque()
        self._over = False  # no more replies will come
        self._error: Optional[grpc.RpcError] = None
        self._call = rpc(self._take_messages(), timeout=timeout, metadata=metadata)
        self._reader = threading.Thread(target=self._read_replies, name="factord-replies", daemon=True)
        self._reader.start()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._call.cancel()
        self._reader.join()

    def send(self, message: Message) -> bool:
        """Waits until there is room for the message. False: the call is over, and takes no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or len(self._messages) < _AHEAD)
            self._messages.append(message)
            self._changed.notify_all()
            return not self._over

    def arrived(self) -> Iterator[Message]:
        """The replies that are there and were not taken before."""
        while self._replies:
            yield self._replies.popleft()

    def complete(self) -> None:
        """Says that all is sent."""
        with self._changed:
            self._complete = True
            self._changed.notify_all()

    def wait(self) -> bool:
        """Waits until a reply is there. False: there are no more; raises FactordError where the call failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._replies)
            if self._replies:
                return True
        if self._error is not None:
            raise from_rpc(self._error) from self._error
        return False

    def _take_messages(self) -> Iterator[Message]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._messages or self._complete or self._over)
                if self._over or not self._messages:
                    return
                message = self._messages.popleft()
                self._changed.notify_all()
            yield message

    def _read_replies(self) -> None:
        try:
            for reply in self._call:
                with self._changed:
                    self._replies.append(reply)
                    self._changed.notify_all()
        except grpc.RpcError as error:
            self._error = error
        with self._changed:
            self._over = True
            self._changed.notify_all()
