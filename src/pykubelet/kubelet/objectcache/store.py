"""The interface of object stores, and the store that caches objects for a time to live.

The three strategies implement `ObjectStore`. If the API server fails, an object that was read before is served.

Upstream: pkg/kubelet/util/manager/manager.go, pkg/kubelet/util/manager/cache_based_manager.go
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Node
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import TypedKind
from pykubelet.client.reflector import ListerWatcher

DEFAULT_TTL_SECONDS = 60.0
TTL_ANNOTATION = "node.alpha.kubernetes.io/ttl"
# Eighteen digits always fit the 64-bit integer that upstream parses.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
TtlSeconds = Callable[[], float | None]
"""How long an object is fresh; None for the default."""


class ReferencedObject(Protocol):
    """What a store needs of a Secret or ConfigMap."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def immutable(self) -> bool | None: ...


T = TypeVar("T", bound=ReferencedObject)
T_co = TypeVar("T_co", bound=ReferencedObject, covariant=True)


class ObjectKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class NotRegistered(LookupError):
    """No registered pod refers to the requested object."""

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(f'object "{key.namespace}"/"{key.name}" not registered')


class NotSynced(Exception):
    """The API server has not sent the object yet; a later attempt may succeed."""

    def __init__(self, noun: str) -> None:
        super().__init__(f"failed to sync {noun} cache: timed out waiting for the condition")


class ObjectStore(Protocol[T_co]):
    """Keeps objects available while pods refer to them. Owned by one loop."""

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        """Add a reference of a pod (its UID) to an object; does not block."""

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        """Remove one reference of a pod; unknown ones are ignored. Does not block."""

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> T_co:
        """The object, waiting at most this long for its first state from the API server.

        Raises NotFound if it does not exist, NotRegistered if no pod refers to it, NotSynced if nothing is known in time,
        ApiError if the request failed and no older state is available.
        """

    async def run(self, ready: asyncio.Event) -> None:
        """Run background work until cancelled."""


@dataclass(frozen=True, slots=True)
class ObjectSource(Generic[T]):
    """Where the objects of one kind come from."""

    client: ListerWatcher
    kind: TypedKind[T]
    clock: Clock

    @property
    def noun(self) -> str:
        """The kind in messages: `secret` or `configmap`."""
        return self.kind.resource.kind.lower()

    async def fetch(self, key: ObjectKey, resource_version: str = "") -> T:
        return await self.client.get(self.kind, key.name, namespace=key.namespace, resource_version=resource_version)

    def not_found(self, key: ObjectKey) -> NotFound:
        """The error for an object that does not exist according to a watch."""
        return NotFound(f'{self.noun} "{key.name}" not found', details={"name": key.name, "kind": self.noun})


def revision(obj: ReferencedObject) -> int:
    """The resource version as a number, 0 if it is not one; compares two states of one object."""
    version = obj.metadata.resource_version
    return int(version) if version.isascii() and version.isdigit() else 0


def no_ttl() -> float | None:
    """Returns None: the default time to live."""
    return None


def node_ttl(node: Callable[[], Node | None]) -> TtlSeconds:
    """The time to live of the Node's annotation, if it is a whole number of seconds."""

    def ttl_seconds() -> float | None:
        try:
            found = node()
        except ApiError:
            return None
        text = found.metadata.annotations.get(TTL_ANNOTATION, "") if found is not None else ""
        return float(int(text)) if _INTEGER.fullmatch(text) else None

    return ttl_seconds


class ChangeDetectionStrategy(StrEnum):
    """How changes are noticed; the values of `configMapAndSecretChangeDetectionStrategy`."""

    WATCH = "Watch"
    TTL = "Cache"
    GET = "Get"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """The strategy of a cache, and the number and duration of its watches."""

    strategy: str = ChangeDetectionStrategy.WATCH
    sync_frequency_seconds: float = 60.0
    """The resync period of pods: a watch of a single object is idle after five times that, at least a minute."""
    ttl_seconds: TtlSeconds = no_ttl
    """How long an object is fresh without a watch; see `node_ttl`."""
    max_streams: int = 100
    """The maximum number of watches of single objects; other objects are fetched when read."""
    single_object_watches: bool = False
    """Never watch a whole namespace, as if the server had refused it."""


class LastRead(Generic[T]):
    """The last state of one object that was read. Reads of it are serialized."""

    def __init__(self, *, source: ObjectSource[T], key: ObjectKey, ttl_seconds: TtlSeconds) -> None:
        self._source, self._key, self._ttl_seconds = source, key, ttl_seconds
        self._object: T | None = None
        self._missing: NotFound | None = None
        self._read_at = float("-inf")
        self._turn = asyncio.Lock()

    async def get(self) -> T:
        """The object, read again if the last state is too old or was NotFound."""
        async with self._turn:
            if self._object is None or not self._is_fresh():
                await self._refresh()
            if self._object is None:
                missing = self._missing or self._source.not_found(self._key)
                # The same error may be raised to many readers; its traceback must not grow with each.
                raise missing.with_traceback(None)
            return self._object

    def _is_fresh(self) -> bool:
        ttl = self._ttl_seconds()
        return self._source.clock.monotonic() < self._read_at + (DEFAULT_TTL_SECONDS if ttl is None else ttl)

    async def _refresh(self) -> None:
        try:
            # A refresh may be served from the server's cache; a missing object must be read consistently.
            found = await self._source.fetch(self._key, "" if self._object is None else "0")
        except NotFound as error:
            self._object, self._missing = None, error
        except ApiError:
            if self._object is None and self._missing is None:
                raise
            return
        else:
            if self._object is not None and revision(found) < revision(self._object):
                return
            self._object, self._missing = found, None
        self._read_at = self._source.clock.monotonic()


class TtlStore(Generic[T]):
    """Counts references and keeps the last read of each object; a new reference makes the next get read again."""

    def __init__(
        self, *, source: ObjectSource[T], changed: Callable[[ObjectKey], None], ttl_seconds: TtlSeconds = no_ttl
    ) -> None:
        self._source, self._changed, self._ttl_seconds = source, changed, ttl_seconds
        self._references: dict[ObjectKey, int] = {}
        self._answers: dict[ObjectKey, LastRead[T]] = {}
        self._versions: dict[ObjectKey, str] = {}

    def add_reference(self, key: ObjectKey, referrer: str) -> None:  # noqa: ARG002  counted, not named
        self._references[key] = self._references.get(key, 0) + 1
        self._answers.pop(key, None)

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:  # noqa: ARG002  likewise
        left = self._references.pop(key, 0) - 1
        if left > 0:
            self._references[key] = left
        else:
            self._answers.pop(key, None)
            self._versions.pop(key, None)

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> T:  # noqa: ARG002  requests have their own
        if key not in self._references:
            raise NotRegistered(key)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = LastRead(source=self._source, key=key, ttl_seconds=self._ttl_seconds)
        try:
            found = await answer.get()
        except NotFound:
            self._note(key, "")
            raise
        self._note(key, found.metadata.resource_version)
        return found

    async def run(self, ready: asyncio.Event) -> None:
        ready.set()

    def _note(self, key: ObjectKey, version: str) -> None:
        if key in self._references and self._versions.get(key, "") != version:
            self._versions[key] = version
            self._changed(key)
