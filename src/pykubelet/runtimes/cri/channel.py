"""Calls a container runtime over gRPC; the only module that uses gRPC for CRI.

The type of the request determines the method. Failures are raised as CriFailure with the kubelet's wording, because users
search for it.

Upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go, staging/src/k8s.io/cri-client/pkg/remote_image.go
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Generic, Self, TypeVar

import grpc.aio
from cri_api.v1 import api_pb2 as cri
from google.protobuf.message import Message

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.runtimes.protocol import RuntimeFailure

DEFAULT_TIMEOUT_SECONDS = 120.0
"""The timeout of most calls: the kubelet's --runtime-request-timeout."""

NOT_FOUND = "NotFound"
UNIMPLEMENTED = "Unimplemented"
UNAVAILABLE = "Unavailable"
UNKNOWN = "Unknown"
DEADLINE_EXCEEDED = "DeadlineExceeded"

_RESTART = timedelta(seconds=2)
"""When to retry if the runtime is unavailable; a restart takes about this long."""
_OPTIONS = (
    # Reconnect soon after a restart of the runtime.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name, the timeout of one attempt; a busy runtime may need this long.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 3000),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_send_message_length", 16 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
    # Each channel has its own connection, so that closing it ends its calls.
    ("grpc.use_local_subchannel_pool", 1),
)
_PATHS = {
    method.input_type.full_name: f"/{service.full_name}/{method.name}"
    for service in cri.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}

A = TypeVar("A", bound=Message)


class CriFailure(RuntimeFailure):
    """A failed call. `details` is the runtime's message, `code` the name of gRPC's status code as in Go."""

    def __init__(self, code: str, details: str, *, retry_at: datetime | None = None) -> None:
        super().__init__(f"rpc error: code = {code} desc = {details}", retry_at=retry_at)
        self.code, self.details = code, details

    def plain(self) -> RuntimeFailure:
        """The failure without gRPC's prefix, as the kubelet reports it for containers."""
        return RuntimeFailure(self.details, retry_at=self.retry_at)


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Leaves a `with` block without an error if the runtime does not have the object."""
    try:
        yield
    except CriFailure as failure:
        if failure.code != NOT_FOUND:
            raise


class CriChannel:
    """A connection to a runtime's socket, opened on first use and reopened when lost."""

    def __init__(self, endpoint: str, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._channel = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        self._methods: dict[str, Callable[..., Any]] = {}
        self._pending: set[PendingCall[Any]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel all calls, also those that no task waits for, and close the connection."""
        for pending in tuple(self._pending):
            pending.cancel()
        await self._channel.close()

    async def ready(self) -> None:
        """Wait until there is a connection."""
        await self._channel.channel_ready()

    async def call(
        self,
        request: Message,
        answer: type[A],
        *,
        timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS,
        finish_seconds: float = 0.0,
    ) -> A:
        """Make a call. Cancelling it cancels the call at the runtime too, after `finish_seconds` without an answer."""
        pending = self.begin(request, answer, timeout_seconds=timeout_seconds)
        try:
            return await pending.answer()
        except asyncio.CancelledError:
            try:
                if finish_seconds:
                    with suppress(TimeoutError, CriFailure):
                        async with asyncio.timeout(finish_seconds):
                            await pending.answer()
            finally:
                pending.cancel()
            raise

    def begin(self, request: Message, answer: type[A], *, timeout_seconds: float | None) -> "PendingCall[A]":
        """Begin a call that continues until it is cancelled, whichever tasks wait for its answer."""
        path = _PATHS[request.DESCRIPTOR.full_name]
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = self._channel.unary_unary(
                path, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
            )
        pending = PendingCall[A](method(request, timeout=timeout_seconds), self._failure, self._pending.discard)
        self._pending.add(pending)
        return pending

    async def listen(self, request: Message, answer: type[A]) -> AsyncIterator[A]:
        """Make a call that returns a stream of answers."""
        path = _PATHS[request.DESCRIPTOR.full_name]
        async for data in self.listen_to(path, request.SerializeToString()):
            yield answer.FromString(data)

    async def listen_to(self, path: str, request: bytes) -> AsyncIterator[bytes]:
        """Like `listen`, for a method outside of CRI."""
        call = self._channel.unary_stream(path)(request)
        try:
            async for data in call:
                yield data
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from error
        finally:
            call.cancel()

    def _failure(self, error: grpc.aio.AioRpcError) -> CriFailure:
        code = "".join(word.capitalize() for word in error.code().name.split("_"))
        retry_at = self._clock.now() + _RESTART if code == UNAVAILABLE else None
        # Go's gRPC spells it with one l.
        return CriFailure("Canceled" if code == "Cancelled" else code, error.details() or "", retry_at=retry_at)


class PendingCall(Generic[A]):
    """A call in progress, independent of the task that began it; `on_end` is called at its end."""

    def __init__(
        self,
        call: "grpc.aio.UnaryUnaryCall[Any, A]",
        failure: Callable[[grpc.aio.AioRpcError], CriFailure],
        on_end: Callable[["PendingCall[Any]"], None],
    ) -> None:
        self._call, self._failure, self._on_end = call, failure, on_end
        self._done = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        call.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self._done.set()
        if self._timer is not None:
            self._timer.cancel()
        self._on_end(self)

    async def answer(self) -> A:
        """Wait for the answer; CriFailure if the call fails."""
        await self._done.wait()
        try:
            answer: A = await self._call
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from error
        return answer

    def cancel(self, *, after_seconds: float = 0.0) -> None:
        """Cancel the call at the runtime, at once or later; does nothing if it has ended by then."""
        if after_seconds > 0:
            self._timer = asyncio.get_running_loop().call_later(after_seconds, self._call.cancel)
        else:
            self._call.cancel()
