"""What a store of referenced objects offers, and what it asks of the objects.

`ObjectStore` is implemented by the three strategies: watch_store.py, ttl_store.py and live_store.py. `ObjectSource`
bundles where their objects come from. Upstream: pkg/kubelet/util/manager/manager.go.
"""

import asyncio
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.typed import Kind
from pykubelet.kube.reflector import ListerWatcher


class ReferencedObject(Protocol):
    """A secret or a config map, as far as a store looks at it."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def immutable(self) -> bool | None: ...


T = TypeVar("T", bound=ReferencedObject)
T_co = TypeVar("T_co", bound=ReferencedObject, covariant=True)


class ObjectKey(NamedTuple):
    """Names an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class NotRegistered(LookupError):
    """No registered pod refers to the object that was asked for."""

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(f'object "{key.namespace}"/"{key.name}" not registered')


class NotSynced(Exception):
    """The API server has not told us of the object yet; asking again later may help."""

    def __init__(self, noun: str) -> None:
        super().__init__(f"failed to sync {noun} cache: timed out waiting for the condition")


class ObjectStore(Protocol[T_co]):
    """Keeps objects at hand while pods refer to them. Owned by one loop."""

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        """A pod (its UID) refers to an object from now on; never waits."""

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        """Takes back one `add_reference` of the same pod; unknown ones are ignored. Never waits."""

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> T_co:
        """The object, waiting at most so long for the API server's first word on it.

        NotFound if it does not exist, NotRegistered if nobody refers to it, NotSynced if nothing is known in time,
        ApiError if the request for it failed and nothing older is at hand.
        """

    async def run(self, ready: asyncio.Event) -> None:
        """Do what has to be done in the background, until cancelled."""


@dataclass(frozen=True, slots=True)
class ObjectSource(Generic[T]):
    """Where the objects of one kind come from."""

    client: ListerWatcher
    kind: Kind[T]
    clock: Clock

    @property
    def noun(self) -> str:
        """`secret` or `configmap`."""
        return self.kind.resource.kind.lower()

    async def fetch(self, key: ObjectKey, resource_version: str = "") -> T:
        """One live request for an object."""
        return await self.client.get(self.kind, key.name, namespace=key.namespace, resource_version=resource_version)

    def not_found(self, key: ObjectKey) -> NotFound:
        """The answer for an object that a watch says is not there."""
        return NotFound(f'{self.noun} "{key.name}" not found', details={"name": key.name, "kind": self.noun})


def revision(obj: ReferencedObject) -> int:
    """The resource version as a number, 0 if it is none; for comparing two states of one object."""
    version = obj.metadata.resource_version
    return int(version) if version.isascii() and version.isdigit() else 0
