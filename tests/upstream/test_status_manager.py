"""Cases 3.16-01 to -13, -17, -28 to -34 and -53 to -57: the status manager and what it sends.

Departure: there is no GET before a PATCH. Where upstream does [get, patch] we do [patch], and where its GET finds that
the pod is gone or replaced, our PATCH does.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from pykubelet.api import schema
from pykubelet.api.errors import InternalError
from pykubelet.api.generated.core import ContainerState as State
from pykubelet.api.generated.core import (
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from pykubelet.api.pods import CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE, MirrorUid, PodUid
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import from_document, to_document
from pykubelet.api.times import format_time
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.testing.build import container, pod
from pykubelet.testing.memory_api import Call, MemoryApi
from pykubelet.testing.virtual_time import ManualClock

T = TypeVar("T")

UID = PodUid("12345678")
FOO = pod("foo", namespace="new", uid=UID, status=PodStatus())
STATIC = pod(
    "foo", namespace="new", uid=UID, status=PodStatus(), annotations={CONFIG_SOURCE: "file", CONFIG_HASH: "mirror"}
)
MIRROR = pod(
    "foo",
    namespace="new",
    uid="mirror-12345678",
    status=PodStatus(),
    annotations={CONFIG_SOURCE: "api", CONFIG_MIRROR: "mirror"},
)
LATER = "2026-01-01T00:05:00Z"


class Safety:
    """Reports that nothing runs and that all resources are reclaimed."""

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return False

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: PodStatus, /) -> bool:
        return True


class FailingApi(MemoryApi):
    """An API that fails every patch while `broken` is set."""

    broken = False

    async def patch(self, kind: TypedKind[T], name: str, body: Any, **where: Any) -> T:
        if self.broken:
            self.calls.append(Call("patch", kind.resource.plural, where["namespace"], name))
            raise InternalError("intentional test error")
        return await super().patch(kind, name, body, **where)


class Node:
    """A status manager between a pod manager and an API."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.api = FailingApi(self.clock)
        self.pods = PodManager()
        self.manager = StatusManager(client=self.api, pods=self.pods, safety=Safety(), clock=self.clock)

    def know(self, known: Pod) -> Pod:
        """Store a pod in the API and in the pod manager."""
        seen = self.store(known)
        self.pods.update_pod(seen)
        return seen

    def store(self, known: Pod) -> Pod:
        """Store a pod in the API only, so that the pod manager does not know it or has another version."""
        return from_document(self.api.put(schema.PODS, to_document(known)), Pod)

    def calls(self) -> list[str]:
        """The verbs of the requests since the last call."""
        verbs, self.api.calls = [call.verb for call in self.api.calls], []
        return verbs

    async def updates(self) -> int:
        """Send the unsent statuses, and return how many pods were tried."""
        return await self.manager.sync_batch(all=False)

    def status(self, uid: str = UID) -> PodStatus:
        status = self.manager.pod_status(uid)
        assert status is not None
        return status

    def sent_versions(self) -> dict[MirrorUid, int]:
        assert self.manager._sender is not None
        return self.manager._sender._syncer._sent


@pytest.fixture
def node() -> Node:
    return Node()


def ready(status: str, since: str | None = None) -> tuple[PodCondition, ...]:
    return (PodCondition(type="Ready", status=status, last_transition_time=since),)


def containers(*names: str, ready: bool = False, started: bool | None = None) -> tuple[ContainerStatus, ...]:
    return tuple(
        ContainerStatus(name=name, container_id=f"test://{name}", ready=ready, started=started) for name in names
    )


@pytest.mark.case("3.16-01 a new status")
async def test_first_status_is_sent_with_a_start_time(node: Node) -> None:
    node.manager.set_pod_status(FOO, PodStatus(message="one"))
    assert await node.updates() == 1
    assert node.status().start_time == format_time(node.clock.now())


@pytest.mark.case("3.16-02 the start time of the pod is kept")
async def test_start_time_of_the_pod_is_preserved(node: Node) -> None:
    known = replace(FOO, status=PodStatus(start_time="2025-12-31T23:59:00Z"))
    node.manager.set_pod_status(known, PodStatus(message="one"))
    assert node.status().start_time == "2025-12-31T23:59:00Z"


@pytest.mark.case("3.16-03 Ready in a first status is dated")
async def test_ready_condition_of_a_first_status_is_dated(node: Node) -> None:
    node.manager.set_pod_status(FOO, PodStatus(conditions=ready("True")))
    assert node.status().conditions[0].last_transition_time == format_time(node.clock.now())


@pytest.mark.case("3.16-04 each change is an update")
async def test_two_statuses_are_two_updates(node: Node) -> None:
    node.know(FOO)
    node.manager.set_pod_status(FOO, PodStatus(message="one"))
    first = await node.updates()
    node.manager.set_pod_status(FOO, PodStatus(message="two"))
    assert (first, await node.updates()) == (1, 1)


@pytest.mark.case("3.16-05 the start time survives, in whole seconds")
async def test_start_time_survives_a_status_without_it(node: Node) -> None:
    node.manager.set_pod_status(FOO, PodStatus(start_time="2025-12-31T12:00:00.123456789Z"))
    node.manager.set_pod_status(FOO, PodStatus(message="two"))
    assert node.status().start_time == "2025-12-31T12:00:00Z"


@pytest.mark.case("3.16-06 a turn of Ready is dated anew")
async def test_transition_time_moves_when_ready_turns(node: Node) -> None:
    node.manager.set_pod_status(FOO, PodStatus(conditions=ready("True")))
    node.clock.advance(5)
    node.manager.set_pod_status(FOO, PodStatus(conditions=ready("False")))
    assert node.status().conditions[0].last_transition_time == format_time(node.clock.now())


@pytest.mark.case("3.16-07 the same status twice is one update")
async def test_same_status_twice_is_one_update(node: Node) -> None:
    for _ in range(2):
        node.manager.set_pod_status(FOO, PodStatus(message="one"))
    assert await node.updates() == 1


@pytest.mark.case("3.16-08 the same Ready again changes nothing")
async def test_same_ready_again_keeps_its_time(node: Node) -> None:
    node.know(FOO)
    node.manager.set_pod_status(FOO, PodStatus(conditions=ready("True")))
    await node.updates()
    before = node.status()
    node.clock.advance(60)
    node.manager.set_pod_status(FOO, PodStatus(conditions=ready("True", LATER)))
    assert await node.updates() == 0
    assert node.status() == before


@pytest.mark.case("3.16-09 nothing is known of the pod, and the API has none: [get]")
async def test_unknown_pod_that_the_api_lacks_takes_one_get(node: Node) -> None:
    node.manager.set_pod_status(FOO, PodStatus(message="one"))
    assert await node.updates() == 1
    assert node.calls() == ["get"]


@pytest.mark.case("3.16-09 departure: a known pod that is gone: [patch] instead of [get]")
async def test_known_pod_that_is_gone_takes_one_patch(node: Node) -> None:
    node.pods.add_pod(FOO)
    node.manager.set_pod_status(FOO, PodStatus(message="one"))
    assert await node.updates() == 1
    assert node.calls() == ["patch"]


@pytest.mark.case("3.16-10 departure: [patch] instead of [get, patch]")
async def test_known_pod_takes_one_patch_of_its_status(node: Node) -> None:
    node.know(FOO)
    node.manager.set_pod_status(FOO, PodStatus(message="one"))
    await node.updates()
    assert [(call.verb, call.subresource) for call in node.api.calls] == [("patch", "status")]


@pytest.mark.case("3.16-10 nothing is known of the pod: [get, patch]")
async def test_unknown_pod_is_read_before_it_is_patched(node: Node) -> None:
    node.store(FOO)
    node.manager.set_pod_status(FOO, PodStatus(message="one"))
    await node.updates()
    assert node.calls() == ["get", "patch"]


@pytest.mark.case("3.16-11 departure: the name belongs to another uid: [patch, get] instead of [get]")
async def test_status_for_another_uid_is_never_stored(node: Node) -> None:
    node.know(replace(FOO, metadata=replace(FOO.metadata, uid="first")))
    second = replace(FOO, metadata=replace(FOO.metadata, uid="second"))
    node.pods.add_pod(second)
    node.manager.set_pod_status(second, PodStatus(message="one"))
    await node.updates()
    assert node.calls() == ["patch", "get"]
    assert "message" not in node.api.documents(schema.PODS)[0].get("status", {})
    assert node.manager.pod_status("second") is None


@pytest.mark.case("3.16-12 departure: one pod through all answers, without GETs before PATCHes")
async def test_one_pod_through_every_answer(node: Node) -> None:
    async def calls(known: Pod, message: str) -> list[str]:
        node.manager.set_pod_status(known, PodStatus(message=message))
        await node.updates()
        return node.calls()

    running = State(running=ContainerStateRunning())
    known = replace(FOO, status=PodStatus(container_statuses=(ContainerStatus(state=running),)))
    assert await calls(known, "not found") == ["get"]
    node.store(replace(known, metadata=replace(known.metadata, uid="other_pod")))
    assert await calls(known, "recreated") == ["get"]
    node.store(known)
    assert await calls(known, "ok") == ["get", "patch"]
    deleting = replace(known, metadata=replace(known.metadata, deletion_timestamp=LATER))
    assert await calls(deleting, "deleted while running") == ["patch"]
    ended = State(terminated=ContainerStateTerminated())
    deleting = replace(deleting, status=PodStatus(container_statuses=(ContainerStatus(state=ended),)))
    assert await calls(deleting, "terminated, but TerminatePod not called") == ["patch"]
    node.api.broken = True
    assert await calls(deleting, "failure") == ["patch"]


@pytest.mark.case("3.16-13 departure: stale updates, without GETs")
async def test_only_the_last_of_several_statuses_is_sent(node: Node) -> None:
    node.know(FOO)
    for message in ("initial status", "first version bump", "second version bump"):
        node.manager.set_pod_status(FOO, PodStatus(message=message))
    await node.manager.sync_batch(all=True)
    assert node.calls() == ["patch"]
    assert node.api.documents(schema.PODS)[0]["status"]["message"] == "second version bump"
    assert await node.updates() == 0
    node.manager.set_pod_status(FOO, PodStatus(message="second version bump"))
    assert await node.updates() == 0
    node.sent_versions()[MirrorUid(UID)] -= 1
    node.manager.set_pod_status(FOO, PodStatus(message="second version bump"))
    assert await node.manager.sync_batch(all=True) == 1
    assert node.calls() == []
    assert await node.updates() == 0


@pytest.mark.case("3.16-17 departure: a static pod and its mirror, without GETs")
async def test_static_pod_is_sent_to_its_mirror(node: Node) -> None:
    node.pods.add_pod(STATIC)
    status = PodStatus(message="one", start_time=format_time(node.clock.now()))
    node.manager.set_pod_status(STATIC, status)
    assert node.status().message == "one"
    assert await node.manager.sync_batch(all=True) == 0
    assert node.calls() == []

    mirror = node.know(MIRROR)
    assert node.status("mirror-12345678") == node.status()
    assert await node.manager.sync_batch(all=True) == 1
    assert node.calls() == ["patch"]
    node.pods.update_pod(replace(mirror, status=node.status()))
    assert await node.manager.sync_batch(all=True) == 0

    node.pods.delete_pod(mirror)
    metadata = replace(MIRROR.metadata, uid="new-mirror-pod", resource_version="99")
    node.pods.add_pod(replace(MIRROR, metadata=metadata))
    assert await node.manager.sync_batch(all=True) == 1
    assert node.calls() == ["patch", "get"]


@pytest.mark.case("3.16-28 container readiness")
async def test_container_readiness_changes_the_pods(node: Node) -> None:
    known = replace(FOO, spec=replace(FOO.spec, containers=(container("c1"), container("c2"))))
    known = node.know(known)
    manager = node.manager
    manager.set_container_readiness(UID, "test://c1", ready=True)
    assert (await node.updates(), manager.pod_status(UID)) == (0, None)
    conditions = ready("False")
    manager.set_pod_status(known, PodStatus(container_statuses=containers("c1", "c2"), conditions=conditions))
    assert await node.updates() == 1
    manager.set_container_readiness(UID, "test://c1", ready=False)
    assert await node.updates() == 0
    manager.set_container_readiness(UID, "test://c1", ready=True)
    assert await node.updates() == 1
    assert _readiness(node) == ([True, False], {"Ready": "False", "ContainersReady": "False"})
    manager.set_container_readiness(UID, "test://c2", ready=True)
    assert await node.updates() == 1
    assert _readiness(node) == ([True, True], {"Ready": "True", "ContainersReady": "True"})
    manager.set_container_readiness(UID, "test://fakeId", ready=True)
    assert await node.updates() == 0


def _readiness(node: Node) -> tuple[list[bool], dict[str, str]]:
    status = node.status()
    ready = [one.ready for one in status.container_statuses]
    return ready, {condition.type: condition.status for condition in status.conditions}


@pytest.mark.case("3.16-29 container startup")
async def test_container_startup_is_an_update_when_it_differs(node: Node) -> None:
    known = node.know(replace(FOO, spec=replace(FOO.spec, containers=(container("c1"), container("c2")))))
    node.manager.set_container_startup(UID, "test://c1", started=True)
    assert await node.updates() == 0
    node.manager.set_pod_status(known, PodStatus(container_statuses=containers("c1", "c2")))
    assert await node.updates() == 1
    steps: Sequence[tuple[str, bool, int]] = (
        ("test://c1", False, 1),
        ("test://c1", False, 0),
        ("test://c1", True, 1),
        ("test://c2", True, 1),
        ("test://fakeId", True, 0),
    )
    for container_id, started, expected in steps:
        node.manager.set_container_startup(UID, container_id, started=started)
        assert await node.updates() == expected
    assert [one.started for one in node.status().container_statuses] == [True, True]


@pytest.mark.case("3.16-30 versions of unknown pods are forgotten")
async def test_versions_of_orphans_are_forgotten(node: Node) -> None:
    versions = {MirrorUid(UID): 100, MirrorUid("mirror-uid"): 200}
    node.sent_versions().update(versions)
    await node.manager.sync_batch(all=True)
    assert node.sent_versions() == {}
    node.manager.set_pod_status(FOO, PodStatus(message="one"))
    for uid, source in (("mirror-uid", {CONFIG_SOURCE: "api", CONFIG_MIRROR: "m"}), ("s", {CONFIG_SOURCE: "file"})):
        node.pods.add_pod(pod("mirrored", namespace="new", uid=uid, annotations=source))
    node.sent_versions().update(versions)
    await node.manager.sync_batch(all=True)
    assert node.sent_versions() == versions


@pytest.mark.case("3.16-31 departure: reconcile, without GETs")
async def test_status_changed_by_others_is_sent_again(node: Node) -> None:
    known = node.know(FOO)
    node.manager.set_pod_status(known, PodStatus(message="one"))
    await node.manager.sync_batch(all=True)
    assert node.calls() == ["patch"]
    live = from_document(node.api.documents(schema.PODS)[0], Pod)
    node.pods.update_pod(live)
    assert (await node.manager.sync_batch(all=True), node.calls()) == (0, [])
    precise = str(live.status.start_time).replace("Z", ".123456Z")
    node.pods.update_pod(replace(live, status=replace(live.status, start_time=precise)))
    assert (await node.manager.sync_batch(all=True), node.calls()) == (0, [])
    node.know(replace(live, status=replace(live.status, message="another's")))
    assert (await node.manager.sync_batch(all=True), node.calls()) == (1, ["patch"])
    assert node.api.documents(schema.PODS)[0]["status"]["message"] == "one"


def deleting(known: Pod) -> Pod:
    return replace(known, metadata=replace(known.metadata, deletion_timestamp=LATER, deletion_grace_period_seconds=30))


@pytest.mark.case("3.16-32 departure: [patch] instead of [get, patch]; a pod that is not finished is not deleted")
async def test_failed_pod_is_not_deleted_before_it_is_finished(node: Node) -> None:
    known = node.know(deleting(FOO))
    node.manager.set_pod_status(known, PodStatus(phase="Failed"))
    await node.updates()
    assert node.calls() == ["patch"]


@pytest.mark.case("3.16-33 departure: [patch, delete] instead of [get, patch, delete]")
async def test_finished_pod_is_deleted(node: Node) -> None:
    known = node.know(deleting(FOO))
    node.manager.terminate_pod(known)
    await node.updates()
    assert node.calls() == ["patch", "delete"]
    assert (node.api.documents(schema.PODS), node.manager.pod_status(UID)) == ((), None)


@pytest.mark.case("3.16-34 departure: [patch] instead of [get, patch]; a mirror is never deleted")
async def test_mirror_is_not_deleted(node: Node) -> None:
    node.pods.add_pod(STATIC)
    node.know(deleting(MIRROR))
    node.manager.set_pod_status(STATIC, PodStatus(phase="Failed"))
    node.manager.terminate_pod(STATIC)
    await node.updates()
    assert node.calls() == ["patch"]


@pytest.mark.case("3.16-53 an illegal transition changes nothing")
async def test_dead_container_cannot_live_again(node: Node) -> None:
    known = replace(FOO, spec=replace(FOO.spec, restart_policy="Never"))
    ended = ContainerStatus(name="c", state=State(terminated=ContainerStateTerminated(exit_code=0)))
    node.manager.set_pod_status(known, PodStatus(container_statuses=(ended,)))
    before = node.manager._cache.get(UID)
    alive = replace(ended, state=State(running=ContainerStateRunning()))
    node.manager.set_pod_status(known, PodStatus(container_statuses=(alive,)))
    assert node.manager._cache.get(UID) == before


@pytest.mark.case("3.16-54 finished stays finished")
async def test_status_after_the_end_stays_finished(node: Node) -> None:
    node.manager.terminate_pod(FOO)
    node.manager.set_pod_status(FOO, PodStatus(phase="Failed", message="late"))
    entry = node.manager._cache.get(UID)
    assert entry is not None
    assert (entry.version, entry.finished, entry.status.message) == (2, True, "late")


@pytest.mark.case("3.16-55 a failed PATCH is tried again with the next update of another pod")
async def test_failed_patch_is_tried_again_with_the_next(node: Node) -> None:
    other = pod("other", namespace="new", uid="other", status=PodStatus())
    for known in (FOO, other):
        node.know(known)
    node.api.broken = True
    node.manager.set_pod_status(FOO, PodStatus(message="one"))
    await node.updates()
    assert node.sent_versions() == {}
    node.api.broken = False
    node.manager.set_pod_status(other, PodStatus(message="two"))
    assert await node.updates() == 2
    assert node.sent_versions() == {UID: 1, "other": 1}


@pytest.mark.case("3.16-56 the observed generation never goes down")
async def test_observed_generation_never_goes_down(node: Node) -> None:
    for generation in (3, 2):
        known = replace(FOO, metadata=replace(FOO.metadata, generation=generation))
        node.manager.set_pod_status(known, PodStatus(message=str(generation)))
    assert (node.status().observed_generation, node.status().message) == (3, "2")


@pytest.mark.case("3.16-57 orphaned statuses are dropped")
async def test_orphaned_statuses_are_dropped(node: Node) -> None:
    other = pod("other", uid="other")
    for known in (FOO, other):
        node.manager.set_pod_status(known, PodStatus(message="one"))
    node.manager.remove_orphaned_statuses({PodUid("other")})
    assert node.manager.pod_status(UID) is None
    assert node.manager.pod_status("other") is not None
