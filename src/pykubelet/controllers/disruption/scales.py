"""How many pods an owner of pods wants: read off the kinds that are followed, else asked of its scale.

Upstream: the finders of pkg/controller/disruption/disruption.go.
"""

from dataclasses import replace
from typing import Protocol, TypeVar

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.apps import Deployment, ReplicaSet, StatefulSet
from pykubelet.api.generated.autoscaling import Scale
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.resources import Resource
from pykubelet.api.typed import Kind
from pykubelet.controllers.object_index import ObjectIndex, manager_of

T = TypeVar("T")

_SET_GROUPS = ("apps", "extensions")


class ScaleClient(Protocol):
    """What is needed of an API server."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource whose objects can be listed and patched."""

    async def get(self, kind: Kind[T], name: str, *, namespace: str = "") -> T:
        """One object; NotFound if there is none."""


class NoScaleError(Exception):
    """Nobody can say how many pods an owner wants; the message says why."""


class Scales:
    """Finds owners and what they want."""

    def __init__(
        self,
        *,
        client: ScaleClient,
        deployments: ObjectIndex[Deployment],
        replica_sets: ObjectIndex[ReplicaSet],
        stateful_sets: ObjectIndex[StatefulSet],
    ) -> None:
        self._client = client
        self._deployments, self._replica_sets, self._stateful_sets = deployments, replica_sets, stateful_sets
        self._kinds: dict[tuple[str, str], Resource] = {}

    async def of(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        """UID and wish of who decides for this owner; None if it is gone. NoScaleError if it has no scale."""
        group = owner.api_version.rpartition("/")[0]
        if owner.kind == "ReplicaSet" and group in _SET_GROUPS:
            found = self._of_replica_set(namespace, owner)
        elif owner.kind == "StatefulSet" and group == "apps":
            stateful = self._stateful_sets.resolve(namespace, owner)
            found = _wish(stateful.metadata.uid, stateful.spec.replicas) if stateful is not None else None
        else:
            found = None
        return found or await self._by_scale(namespace, owner)

    def _of_replica_set(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        """What a ReplicaSet wants, or its Deployment if that decides."""
        replica_set = self._replica_sets.resolve(namespace, owner)
        if replica_set is None:
            return None
        manager = manager_of(replica_set)
        if manager is None or manager.kind != "Deployment":
            return _wish(replica_set.metadata.uid, replica_set.spec.replicas)
        deployment = self._deployments.resolve(namespace, manager)
        return _wish(deployment.metadata.uid, deployment.spec.replicas) if deployment is not None else None

    async def _by_scale(self, namespace: str, owner: OwnerReference) -> tuple[str, int] | None:
        resource = await self._resource(owner)
        try:
            kind = Kind(replace(resource, subresource="scale"), Scale)
            scale = await self._client.get(kind, owner.name, namespace=namespace)
        except NotFound as error:
            if error.details.get("name") == owner.name:
                return None
            raise NoScaleError(f"{resource.group_resource} does not implement the scale subresource") from error
        return (scale.metadata.uid, scale.spec.replicas) if scale.metadata.uid == owner.uid else None

    async def _resource(self, owner: OwnerReference) -> Resource:
        key = (owner.api_version, owner.kind)
        if key not in self._kinds:
            self._kinds = {(one.api_version, one.kind): one for one in reversed(await self._client.served())}
        if key not in self._kinds:
            raise NoScaleError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        return self._kinds[key]


def _wish(uid: str, replicas: int | None) -> tuple[str, int]:
    return uid, 1 if replicas is None else replicas
