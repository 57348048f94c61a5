"""The Deployment controller: what enqueues a Deployment, which are rejected, and failures to create a ReplicaSet."""

from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.errors import ApiError, Forbidden
from pykubelet.api.generated.apps import Deployment, DeploymentSpec, DeploymentStrategy, ReplicaSet, ReplicaSetSpec
from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.api.generated.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from pykubelet.api.scheme import DEPLOYMENTS, REPLICA_SETS, TypedKind
from pykubelet.client.indexer import ObjectIndex, PodIndex, key_of
from pykubelet.controllers.deployment.deployment_controller import DeploymentController
from pykubelet.controllers.framework.ownership import ClaimError, new_controller_ref
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

T = TypeVar("T")


def deployment(name: str = "web", *, app: str = "web", strategy: str = "RollingUpdate", **meta: Any) -> Deployment:
    metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", generation=1, **meta)
    selector = LabelSelector(match_labels={"app": app})
    kind = DeploymentStrategy(type=strategy)
    return Deployment(
        metadata=metadata,
        spec=DeploymentSpec(replicas=1, selector=selector, strategy=kind, progress_deadline_seconds=60),
    )


WEB, SHOP = deployment(), deployment("shop", app="shop")


def replica_set(owner: Deployment | None = WEB, *, app: str = "web", version: str = "1", **meta: Any) -> ReplicaSet:
    owners = () if owner is None else (new_controller_ref(owner),)
    fields = {"labels": {"app": app}, "owner_references": owners, "resource_version": version, **meta}
    return ReplicaSet(
        metadata=ObjectMeta(**{"name": "web-1", "namespace": "default", "uid": "uid-1", **fields}),
        spec=ReplicaSetSpec(replicas=1),
    )


class RefusingApi(MemoryApi):
    """An API that can be made to reject all creations."""

    refusal: ApiError | None = None

    async def create(self, kind: TypedKind[T], body: T, *, namespace: str = "", name: str = "") -> T:
        if self.refusal is not None:
            raise self.refusal
        return await super().create(kind, body, namespace=namespace, name=name)


class World:
    """A controller with some objects in its caches, and the events that it emits."""

    def __init__(self, *deployments: Deployment, sets: tuple[ReplicaSet, ...] = ()) -> None:
        self.api = RefusingApi(VirtualClock())
        self.told: list[tuple[str, str, str]] = []
        self.known = ObjectIndex(deployments)
        self.sets = ObjectIndex(sets)
        self.controller = DeploymentController(
            client=self.api,
            recorder=self,
            clock=VirtualClock(),
            deployments=self.known,
            sets=self.sets,
            pods=PodIndex(),
        )
        for one in deployments:
            self.api.put(DEPLOYMENTS.resource, serializer.to_document(one))
            self.known.put(serializer.from_document(self.api.documents(DEPLOYMENTS.resource)[-1], Deployment))
        for found in sets:
            self.api.put(REPLICA_SETS.resource, serializer.to_document(found))

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        assert involved.kind == "Deployment"
        self.told.append((event_type, reason, message))

    def woken(self) -> set[str]:
        return {key for one in (WEB, SHOP) if (key := key_of(one)) in self.controller.queue}

    async def stored(self) -> Deployment:
        return await self.api.get(DEPLOYMENTS, "web", namespace="default")


BOTH = {"default/web", "default/shop"}
GOING = replica_set(deletion_timestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(("set_added", replica_set()), {"default/web"}, id="added"),
        pytest.param(("set_added", GOING), {"default/web"}, id="added while going"),
        pytest.param(("set_added", replica_set(deployment(name="else"))), set(), id="added with an unknown owner"),
        pytest.param(("set_added", replica_set(None)), {"default/web"}, id="orphan added"),
        pytest.param(("set_added", replica_set(None, app="else")), set(), id="orphan added that nobody selects"),
        pytest.param(("set_updated", replica_set(), replica_set(version="2")), {"default/web"}, id="updated"),
        pytest.param(("set_updated", replica_set(), replica_set()), set(), id="told again"),
        pytest.param(("set_updated", replica_set(), replica_set(SHOP, version="2")), BOTH, id="owner changed"),
        pytest.param(("set_updated", replica_set(), replica_set(None, version="2")), {"default/web"}, id="released"),
        pytest.param(
            ("set_updated", replica_set(None), replica_set(None, app="shop", version="2")),
            {"default/shop"},
            id="orphan relabelled",
        ),
        pytest.param(("set_updated", replica_set(None), replica_set(None, version="2")), set(), id="orphan updated"),
        pytest.param(("set_deleted", replica_set()), {"default/web"}, id="deleted"),
        pytest.param(("set_deleted", replica_set(None)), set(), id="orphan deleted"),
        pytest.param(("deployment_changed", WEB), {"default/web"}, id="deployment added"),
        pytest.param(("deployment_changed", WEB), {"default/web"}, id="deployment updated"),
        pytest.param(("deployment_changed", WEB), {"default/web"}, id="deployment deleted"),
    ],
)
async def test_change_wakes_the_deployments_it_concerns(change: tuple[Any, ...], expected: set[str]) -> None:
    """These manage the ReplicaSet, managed it, or may adopt it."""
    world = World(WEB, SHOP)
    getattr(world.controller, change[0])(*change[1:])
    assert world.woken() == expected


@pytest.mark.parametrize(("strategy", "expected"), [("Recreate", {"default/web"}), ("RollingUpdate", set())])
async def test_end_of_a_pod_wakes_a_deployment_that_waits_for_it(strategy: str, expected: set[str]) -> None:
    """Only the Recreate strategy waits until pods are gone."""
    one = replica_set()
    world = World(deployment(strategy=strategy), sets=(one,))
    metadata = ObjectMeta(name="p", namespace="default", owner_references=(new_controller_ref(one),))
    world.controller.pod_deleted(Pod(metadata=metadata))
    assert world.woken() == expected
    world.controller.pod_deleted(Pod(metadata=replace(metadata, owner_references=())))
    assert world.woken() == expected


async def test_deployment_that_selects_everything_is_refused() -> None:
    """A warning event is emitted, and the generation counts as observed."""
    world = World(replace(WEB, spec=replace(WEB.spec, selector=LabelSelector())))
    await world.controller.sync("default/web")
    text = "This deployment is selecting all pods. A non-empty selector is required."
    assert world.told == [("Warning", "SelectingAll", text)]
    found = await world.stored()
    assert found.status.observed_generation == 1
    world.known.put(found)
    calls = len(world.api.calls)
    await world.controller.sync("default/web")
    assert len(world.api.calls) == calls


async def test_deployment_that_is_gone_or_selects_nonsense_is_left_alone() -> None:
    """Neither causes a request to the API."""
    nonsense = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Is"),))
    world = World(replace(WEB, spec=replace(WEB.spec, selector=nonsense)))
    await world.controller.sync("default/web")
    await world.controller.sync("default/gone")
    assert world.api.calls == []


async def test_failed_creation_of_a_set_is_reported_and_retried() -> None:
    """An event and a condition carry the server's message."""
    world = World(deployment())
    world.api.refusal = Forbidden("exceeded quota")
    with pytest.raises(Forbidden):
        await world.controller.sync("default/web")
    ((kind, reason, message),) = world.told
    assert (kind, reason) == ("Warning", "ReplicaSetCreateError")
    assert message.startswith('Failed to create new replica set "web-')
    (condition,) = (await world.stored()).status.conditions
    assert (condition.status, condition.reason, condition.message) == ("False", "ReplicaSetCreateError", message)
    world.api.refusal = None
    world.known.put(await world.stored())
    await world.controller.sync("default/web")
    assert {one.reason for one in (await world.stored()).status.conditions} >= {"NewReplicaSetCreated"}


async def test_namespace_that_ends_is_no_failure() -> None:
    """No ReplicaSet can be created in it, and none is needed."""
    world = World(deployment())
    cause = {
        "reason": "NamespaceTerminating",
        "message": "namespace is being terminated",
        "field": "metadata.namespace",
    }
    world.api.refusal = Forbidden("being terminated", details={"causes": [cause]})
    await world.controller.sync("default/web")
    assert world.told == []


async def test_deployment_that_is_being_deleted_only_counts() -> None:
    """Only the status is written, and no ReplicaSet is created."""
    world = World(deployment(deletion_timestamp="2026-01-01T00:00:00Z", finalizers=("foregroundDeletion",)))
    await world.controller.sync("default/web")
    assert [call.verb for call in world.api.calls] == ["patch"]
    assert (await world.stored()).status.observed_generation == 1


async def test_deployment_of_unknown_strategy_is_an_error() -> None:
    """The API's validation rejects such a Deployment, so the controller never gets one."""
    world = World(deployment(strategy="BlueGreen"))
    with pytest.raises(ValueError, match="unexpected deployment strategy type: BlueGreen"):
        await world.controller.sync("default/web")


async def test_set_that_cannot_be_adopted_stops_the_sync() -> None:
    """The Deployment was recreated under the same name, which only a live read shows."""
    orphan = replica_set(None)
    world = World(deployment(), sets=(orphan,))
    world.api.put(
        DEPLOYMENTS.resource, serializer.to_document(replace(WEB, metadata=replace(WEB.metadata, uid="other")))
    )
    with pytest.raises(ClaimError, match="can't adopt ReplicaSet default/web-1") as raised:
        await world.controller.sync("default/web")
    assert "is gone: got uid other, wanted uid-web" in str(raised.value)


async def test_created_set_missing_from_the_cache_is_found_by_name() -> None:
    """The response was lost or the watch is late; the creation is reported once."""
    world = World(deployment())
    await world.controller.sync("default/web")
    world.known.put(await world.stored())
    await world.controller.sync("default/web")
    assert [reason for _, reason, _ in world.told] == ["ScalingReplicaSet"]
    assert len(world.api.documents(REPLICA_SETS.resource)) == 1
    assert (await world.stored()).status.collision_count is None


async def test_deployment_without_a_deadline_has_no_progressing_condition() -> None:
    """This holds when the creation of a ReplicaSet fails and when it succeeds."""
    endless = deployment()
    world = World(replace(endless, spec=replace(endless.spec, progress_deadline_seconds=2**31 - 1)))
    world.api.refusal = Forbidden("exceeded quota")
    with pytest.raises(Forbidden):
        await world.controller.sync("default/web")
    assert (await world.stored()).status.conditions == ()
    world.api.refusal = None
    await world.controller.sync("default/web")
    assert [one.type for one in (await world.stored()).status.conditions] == ["Available"]
