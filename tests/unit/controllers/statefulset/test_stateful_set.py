"""The StatefulSet controller: what enqueues it, failures, and its status."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.errors import ApiError, Forbidden, InternalError
from pykubelet.api.generated.apps import (
    ControllerRevision,
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from pykubelet.api.generated.core import ObjectReference, PersistentVolumeClaim, Pod, PodStatus, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from pykubelet.api.scheme import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, TypedKind
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.statefulset.stateful_set import StatefulSetController, StatefulSetInformers
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import EPOCH, VirtualClock

KEY = "ns/web"
LABELS = {"app": "web"}
AT = EPOCH.isoformat()
ENDING = Forbidden("no", details={"causes": [{"reason": "NamespaceTerminating"}]})


def stateful_set(*, policy: str = "", templates: int = 0, parallel: bool = False, **meta: Any) -> StatefulSet:
    retention = StatefulSetPersistentVolumeClaimRetentionPolicy(when_scaled="Retain", when_deleted=policy)
    spec = StatefulSetSpec(
        replicas=2,
        selector=LabelSelector(match_labels=LABELS),
        template=PodTemplateSpec(metadata=ObjectMeta(labels=LABELS)),
        pod_management_policy="Parallel" if parallel else "OrderedReady",
        persistent_volume_claim_retention_policy=retention if policy else None,
        update_strategy=StatefulSetUpdateStrategy(type="OnDelete"),
        volume_claim_templates=(PersistentVolumeClaim(metadata=ObjectMeta(name="data")),) * templates,
    )
    return StatefulSet(metadata=ObjectMeta(name="web", namespace="ns", uid="u", generation=1, **meta), spec=spec)


class BrokenApi(MemoryApi):
    """An API that fails to create objects of one kind."""

    broken: tuple[str, ApiError] | None = None

    async def create(self, kind: TypedKind[Any], body: Any, *, namespace: str = "", name: str = "") -> Any:
        if self.broken is not None and self.broken[0] == kind.resource.plural:
            raise self.broken[1]
        return await super().create(kind, body, namespace=namespace, name=name)


class World:
    """A controller between an API and the informer caches that a test fills."""

    def __init__(self, one: StatefulSet) -> None:
        self.api, self.told = BrokenApi(VirtualClock()), list[str]()
        self.api.put(STATEFUL_SETS.resource, serializer.to_document(one))
        self.view = StatefulSetInformers(ObjectIndex([one]), PodIndex(), ObjectIndex(), ObjectIndex())
        self.controller = StatefulSetController(client=self.api, recorder=self, view=self.view, clock=VirtualClock())

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        assert involved.uid == "u"
        self.told.append(f"{event_type} {reason}: {message}")

    def show(self) -> None:
        """Copy all objects from the API to the caches."""
        for document in self.api.documents(STATEFUL_SETS.resource):
            self.view.sets.put(serializer.from_document(document, StatefulSet))
        for document in self.api.documents(PODS.resource):
            self.view.pods.put(serializer.from_document(document, Pod))
        for document in self.api.documents(PERSISTENT_VOLUME_CLAIMS.resource):
            self.view.claims.put(serializer.from_document(document, PersistentVolumeClaim))
        for document in self.api.documents(CONTROLLER_REVISIONS.resource):
            self.view.revisions.put(serializer.from_document(document, ControllerRevision))

    def add(self, kind: TypedKind[Any], obj: Any) -> None:
        self.api.put(kind.resource, serializer.to_document(obj))
        self.show()

    async def woken(self) -> list[str]:
        found: list[str] = []

        async def note(key: str) -> None:
            found.append(key)

        while len(self.controller.queue):
            await self.controller.queue.process_next(note)
        return found


def pod(name: str = "web-0", *, owner: StatefulSet | None = None, version: str = "1", **meta: Any) -> Pod:
    references = () if owner is None else (new_controller_ref(owner),)
    made = {"labels": LABELS, **meta}
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="ns", uid=name, owner_references=references, resource_version=version, **made
        ),
        status=PodStatus(phase="Running"),
    )


async def test_failed_creation_is_reported_and_raised() -> None:
    """The status is written all the same."""
    world = World(stateful_set())
    world.api.broken = ("pods", InternalError("broken"))
    with pytest.raises(InternalError, match="broken"):
        await world.controller.sync(KEY)
    assert world.told == ["Warning FailedCreate: create Pod web-0 in StatefulSet web failed error: broken"]
    (document,) = world.api.documents(STATEFUL_SETS.resource)
    assert document["status"]["observedGeneration"] == 1


async def test_pod_without_its_claim_is_not_created() -> None:
    """Events give the reason for the claim and for the pod."""
    world = World(stateful_set(templates=1))
    world.api.broken = ("persistentvolumeclaims", InternalError("broken"))
    with pytest.raises(Exception, match=r"^failed to create PVC data-web-0: broken$"):
        await world.controller.sync(KEY)
    failed = "in StatefulSet web failed error:"
    assert world.told == [
        f"Warning FailedCreate: create Claim data-web-0 for Pod web-0 {failed} broken",
        f"Warning FailedCreate: create Pod web-0 {failed} failed to create PVC data-web-0: broken",
    ]
    assert not world.api.documents(PODS.resource)


@pytest.mark.parametrize("kind", ["pods", "persistentvolumeclaims"])
async def test_terminating_namespace_is_no_failure(kind: str) -> None:
    """No failure event is emitted."""
    world = World(stateful_set(templates=1))
    world.api.broken = (kind, ENDING)
    await world.controller.sync(KEY)
    assert not any("Failed" in text for text in world.told)


async def test_claim_that_is_being_deleted_holds_up_its_pod() -> None:
    """The pod would otherwise start with a claim that is about to go."""
    world = World(stateful_set(templates=1))
    meta = ObjectMeta(name="data-web-0", namespace="ns", uid="c", deletion_timestamp=AT, finalizers=("x",))
    world.add(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim(metadata=meta))
    with pytest.raises(Exception, match=r"^pvc data-web-0 is being deleted$"):
        await world.controller.sync(KEY)
    assert not world.api.documents(PODS.resource)


async def test_claim_that_another_manages_is_left_to_it() -> None:
    """A warning event reports that the policy does not apply to the claim."""
    world = World(stateful_set(templates=1, policy="Delete"))
    other = OwnerReference(api_version="x/v1", kind="Backup", name="b", uid="b", controller=True)
    meta = ObjectMeta(name="data-web-0", namespace="ns", uid="c", owner_references=(other,))
    world.add(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim(metadata=meta))
    await world.controller.sync(KEY)
    assert world.told[0].startswith("Warning ConflictingController: PersistentVolumeClaim data-web-0 has a conflicting")
    (claim,) = world.api.documents(PERSISTENT_VOLUME_CLAIMS.resource)
    assert len(claim["metadata"]["ownerReferences"]) == 1


async def test_claim_changed_meanwhile_is_updated_by_the_next_sync() -> None:
    """The list of owners is written as a whole, so it must come from a fresh copy."""
    world = World(stateful_set(templates=1, policy="Delete"))
    world.add(
        PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim(metadata=ObjectMeta(name="data-web-0", namespace="ns", uid="c"))
    )
    await world.api.patch(PERSISTENT_VOLUME_CLAIMS, "data-web-0", {"metadata": {"labels": {"a": "b"}}}, namespace="ns")
    with pytest.raises(Exception, match=r"^could not update claim data-web-0 for delete policy ownerRefs: "):
        await world.controller.sync(KEY)
    world.show()
    await world.controller.sync(KEY)
    (claim,) = world.api.documents(PERSISTENT_VOLUME_CLAIMS.resource)
    assert [one["kind"] for one in claim["metadata"]["ownerReferences"]] == ["StatefulSet"]


async def test_adopted_pod_is_corrected_and_reported() -> None:
    """The set is parallel, so pods need not be ready for it."""
    world = World(stateful_set(parallel=True))
    world.add(PODS, pod("web-0"))
    world.add(PODS, pod("web-1"))
    await world.controller.sync(KEY)
    assert world.told[0] == "Normal SuccessfulUpdate: update Pod web-0 in StatefulSet web successful"
    found = [one["metadata"]["labels"]["apps.kubernetes.io/pod-index"] for one in world.api.documents(PODS.resource)]
    assert sorted(found) == ["0", "1"]


async def test_pod_that_has_gone_is_not_deleted_in_its_successors_place() -> None:
    """The deletion names the UID, so it cannot hit a new pod of the same name."""
    one = stateful_set()
    world = World(one)
    world.add(PODS, replace(pod(owner=one), status=PodStatus(phase="Failed")))
    world.api.remove(PODS.resource, namespace="ns", name="web-0")
    await world.controller.sync(KEY)
    world.api.put(PODS.resource, serializer.to_document(replace(pod(), metadata=replace(pod().metadata, uid="next"))))
    with pytest.raises(ApiError):
        await world.controller.sync(KEY)
    assert [one["metadata"]["uid"] for one in world.api.documents(PODS.resource)] == ["next"]


async def test_set_being_deleted_only_counts() -> None:
    """Only the status is written. A set that is gone or has an invalid selector causes no request."""
    one = stateful_set(deletion_timestamp=AT, finalizers=("foregroundDeletion",))
    world = World(one)
    world.add(PODS, pod(owner=one))
    await world.controller.sync(KEY)
    assert [(call.verb, call.resource) for call in world.api.calls] == [("patch", "statefulsets")]
    (document,) = world.api.documents(STATEFUL_SETS.resource)
    assert document["status"]["replicas"] == 1
    wrong = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Wrong"),))
    world.view.sets.put(replace(one, spec=replace(one.spec, selector=wrong)))
    await world.controller.sync(KEY)
    await world.controller.sync("ns/gone")
    assert len(world.api.calls) == 1


SET = stateful_set()
Tell = Callable[[StatefulSetController], None]
NEWS: list[tuple[str, Tell, bool]] = [
    ("new set", lambda one: one.set_changed(SET), True),
    ("changed set", lambda one: one.set_changed(SET), True),
    ("set gone", lambda one: one.set_changed(SET), True),
    ("pod", lambda one: one.pod_added(pod(owner=SET)), True),
    ("orphan", lambda one: one.pod_added(pod()), True),
    ("orphan that ends", lambda one: one.pod_added(pod(deletion_timestamp=AT)), False),
    ("same pod", lambda one: one.pod_updated(pod(owner=SET), pod(owner=SET)), False),
    ("changed pod", lambda one: one.pod_updated(pod(owner=SET), pod(owner=SET, version="2")), True),
    ("released pod", lambda one: one.pod_updated(pod(owner=SET), pod(version="2", labels={})), True),
    ("orphan the same", lambda one: one.pod_updated(pod(), pod(version="2")), False),
    ("orphan with other labels", lambda one: one.pod_updated(pod(labels={}), pod(version="2")), True),
    ("pod gone", lambda one: one.pod_deleted(pod(owner=SET)), True),
    ("stranger of a pod's name gone", lambda one: one.pod_deleted(pod("web-7", labels={})), True),
    ("stranger gone", lambda one: one.pod_deleted(pod("web-x", labels={})), False),
    ("claim gone", lambda one: one.claim_deleted(PersistentVolumeClaim(metadata=pod().metadata)), True),
]


@pytest.mark.parametrize(("tell", "expected"), [pytest.param(*row[1:], id=row[0]) for row in NEWS])
async def test_news_wake_the_set_they_concern(tell: Tell, expected: bool) -> None:
    world = World(SET)
    tell(world.controller)
    assert await world.woken() == ([KEY] if expected else [])
