"""Syncing one pod to the API: a GET only in doubt, and a DELETE only with the pod's UID."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import schema
from pykubelet.api.errors import ApiError, Conflict, Forbidden, Invalid
from pykubelet.api.generated.core import Pod, PodCondition, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.api.serializer import to_document
from pykubelet.kubelet.status.cache import KnownApiPods
from pykubelet.testing.build import mirror_pod, pod, static_pod
from pykubelet.testing.faults import Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

UID = PodUid("uid-default-web")
LATER = "2026-01-01T00:05:00Z"


class Refusing(MemoryApi):
    """An API server that refuses one patch."""

    error: ApiError | None = None

    async def patch(self, *args: Any, **where: Any) -> Any:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return await super().patch(*args, **where)


def rewired(make_world: Any, kind: type[MemoryApi]) -> Any:
    """A world around an API server of another kind."""
    api = kind(VirtualClock())
    world = make_world(lambda _: api)
    world.api = api
    return world


def deleting(known: Pod) -> Pod:
    metadata = replace(known.metadata, deletion_timestamp=LATER, deletion_grace_period_seconds=30)
    return replace(known, metadata=metadata)


async def send(world: Any, known: Pod, message: str) -> list[str]:
    world.manager.set_pod_status(known, PodStatus(message=message))
    await world.manager.sync_batch(all=False)
    calls: list[str] = world.calls()
    return calls


async def test_no_get_is_made_when_the_pod_is_known(world: Any) -> None:
    """Departure: patches are made against the watched object or the last response, with one request each."""
    known = world.add()
    assert [await send(world, known, message) for message in ("one", "two", "three")] == [["patch"]] * 3
    assert [await send(world, known, "three")] == [[]]


async def test_wait_counts_from_the_change_when_all_before_was_sent(world: Any) -> None:
    """The observer gets the waiting time of the oldest unsent change."""
    known = world.add()
    for message in ("one", "two"):
        world.manager.set_pod_status(known, PodStatus(message=message))
        await asyncio.sleep(3)
        await world.manager.sync_batch(all=False)
    assert world.waits == [3.0, 3.0]


async def test_patch_is_made_against_the_watchs_object_when_that_is_newer(world: Any) -> None:
    """Another client's change is seen and overwritten."""
    known = world.add()
    await send(world, known, "one")
    current = world.api.documents(schema.PODS)[0]
    world.api.put(schema.PODS, {**current, "status": {**current["status"], "message": "another's"}})
    world.watch()
    assert await world.manager.sync_batch(all=True) == 1
    assert world.live("web")["message"] == "one"


async def test_status_stays_unsent_when_setting_it_right_failed(make_world: Any) -> None:
    """A status that the API has lost is sent with the next batch, whatever its kind."""
    world = rewired(make_world, Refusing)
    known = world.add()
    await send(world, known, "one")
    current = world.api.documents(schema.PODS)[0]
    world.api.put(schema.PODS, {**current, "status": {**current["status"], "message": "another's"}})
    world.watch()
    world.api.error = Forbidden("patch")
    assert await world.manager.sync_batch(all=True) == 1
    assert await world.manager.sync_batch(all=False) == 1
    assert world.live("web")["message"] == "one"


async def test_status_is_sent_to_the_new_mirror_when_the_old_one_was_replaced(world: Any) -> None:
    """A recreated mirror does not have the status that was sent to the former one."""
    static = static_pod()
    world.pods.add_pod(static)
    old = world.add(mirror_pod())
    await send(world, static, "one")
    world.pods.delete_pod(old)
    world.api.remove(schema.PODS, namespace="default", name=old.metadata.name)
    assert await world.manager.sync_batch(all=False) == 0
    world.add(mirror_pod(uid="mirror-2"))
    assert await world.manager.sync_batch(all=False) == 1
    assert (world.calls(), world.live(old.metadata.name)["message"]) == (["patch"], "one")


async def test_foreign_condition_stays_when_the_known_object_is_stale(world: Any) -> None:
    """A patch contains only our conditions, so unseen ones of other owners survive."""
    known = world.add()
    gate = {"type": "example.com/gate", "status": "True"}
    current = world.api.documents(schema.PODS)[0]
    world.api.put(schema.PODS, {**current, "status": {**current["status"], "conditions": [gate]}})
    ours = PodStatus(conditions=(PodCondition(type="Ready", status="True"),))
    world.manager.set_pod_status(known, ours)
    await world.manager.sync_batch(all=False)
    assert {one["type"] for one in world.live("web")["conditions"]} == {"example.com/gate", "Ready"}


@pytest.mark.parametrize(
    "error",
    [
        Conflict("patch: the object has been modified"),
        Invalid("patch", details={"causes": [{"field": "metadata.uid"}]}),
    ],
    ids=["409", "422"],
)
async def test_pod_is_read_and_patched_again_when_the_refusal_was_no_other_pods(make_world: Any, error: Any) -> None:
    """A GET finds the cause; if the pod has the same UID, the patch is made again."""
    world = rewired(make_world, Refusing)
    world.api.error = error
    known = world.add()
    assert await send(world, known, "one") == ["get", "patch"]
    assert world.live("web")["message"] == "one"


async def test_status_is_dropped_when_the_pod_was_made_anew(world: Any) -> None:
    """The server refuses the old UID and the GET shows a new one, so the status is dropped."""
    known = world.add()
    world.store(replace(known, metadata=replace(known.metadata, uid="new")))
    assert await send(world, known, "one") == ["patch", "get"]
    assert (world.manager.pod_status(UID), world.forgotten) == (None, [UID])


async def test_other_refusals_are_no_reason_to_read_when_they_come(make_world: Any) -> None:
    """A 403, or a 422 about another field, does not concern the pod's identity."""
    for error in (Forbidden("patch"), Invalid("patch", details={"causes": [{"field": "status.phase"}]})):
        world = rewired(make_world, Refusing)
        world.api.error = error
        known = world.add()
        assert await send(world, known, "one") == []
        assert await send(world, known, "one") == ["patch"]


@pytest.mark.parametrize(
    ("change", "why", "is_reported"),
    [
        (lambda known: known, "no", True),
        (lambda known: known, "no relationship found between node 'n1' and this object", False),
        (deleting, "no", False),
        (None, "no", False),
    ],
    ids=["running", "of another node", "deleting", "gone"],
)
async def test_refusal_is_reported_unless_the_pod_may_be_gone(
    make_world: Any, change: Any, why: str, *, is_reported: bool
) -> None:
    """The Node authorizer refuses a pod that is gone as it refuses another node's."""
    world = rewired(make_world, Refusing)
    known = world.add()
    world.manager.set_pod_status(known, PodStatus(message="one"))
    if change is None:
        world.pods.delete_pod(known)
    else:
        world.pods.update_pod(change(known))
    world.api.error = Forbidden(why)
    await world.manager.sync_batch(all=False)
    assert world.unsent == ([why] if is_reported else [])


async def test_status_waits_when_the_pod_is_gone_from_the_api(world: Any) -> None:
    """A 404 needs no GET; housekeeping drops the status later."""
    known = world.add()
    world.api.remove(schema.PODS, namespace="default", name="web")
    assert await send(world, known, "one") == ["patch"]
    assert world.manager.pod_status(UID) is not None


async def test_terminal_phase_is_held_back_when_containers_could_run(world: Any) -> None:
    """The phase is reported when no container can run, at the latest with the next reconcile pass."""
    known = world.add(pod(status=PodStatus(phase="Running")))
    world.could_run = True
    world.manager.set_pod_status(known, PodStatus(phase="Failed", reason="Evicted"))
    await world.manager.sync_batch(all=False)
    assert world.live("web")["phase"] == "Running"
    world.could_run = False
    world.watch()
    await world.manager.sync_batch(all=True)
    assert world.live("web")["phase"] == "Failed"


async def test_delete_waits_when_resources_are_not_reclaimed(world: Any) -> None:
    """A finished pod still waits for its containers, volumes and cgroup."""
    known = world.add(deleting(pod()))
    world.reclaimed = False
    world.manager.terminate_pod(known)
    await world.manager.sync_batch(all=False)
    assert world.calls() == ["patch"]
    world.watch()
    assert (await world.manager.sync_batch(all=True), world.calls()) == (0, [])
    world.reclaimed = True
    assert await world.manager.sync_batch(all=True) == 1
    assert (world.calls(), world.api.documents(schema.PODS)) == (["delete"], ())


async def test_delete_names_the_uid_when_it_is_sent(world: Any) -> None:
    """The grace period is zero, and the UID is a precondition."""
    world.manager.terminate_pod(world.add(deleting(pod())))
    await world.manager.sync_batch(all=False)
    body = world.api.calls[-1].body
    assert (body["gracePeriodSeconds"], body["preconditions"]) == (0, {"uid": UID})
    assert world.forgotten == [UID]


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.CONFLICT, Fault.FAILED, Fault.REFUSED])
async def test_delete_is_tried_again_when_it_failed(make_world: Any, fault: Fault) -> None:
    """After any failed DELETE the pod is finally deleted."""
    world = make_world(lambda api: FaultyClient(api, fault, at=1))
    world.manager.terminate_pod(world.add(deleting(pod())))
    await world.manager.sync_batch(all=False)
    assert UID not in world.forgotten
    world.watch()
    await world.manager.sync_batch(all=True)
    assert world.api.documents(schema.PODS) == ()
    if fault is not Fault.ANSWER_LOST:
        assert world.forgotten == [UID]


class Racing(MemoryApi):
    """An API in which another client replaces the pod just before it is deleted."""

    async def delete(self, kind: Any, name: str, **where: Any) -> None:
        self.put(schema.PODS, to_document(pod(name, uid="new")))
        await super().delete(kind, name, **where)


async def test_pod_of_that_name_survives_when_the_deleted_one_was_replaced(make_world: Any) -> None:
    """The DELETE fails on the new pod's UID: the old one is forgotten, the new one stays."""
    world = rewired(make_world, Racing)
    world.manager.terminate_pod(world.add(deleting(pod())))
    await world.manager.sync_batch(all=False)
    assert world.calls() == ["patch", "delete", "get"]
    assert world.forgotten == [UID]
    assert [one["metadata"]["uid"] for one in world.api.documents(schema.PODS)] == ["new"]


async def test_newest_known_object_is_the_mirror_when_the_pod_is_static(world: Any) -> None:
    """Only the mirror of a static pod is in the API; without a mirror there is no known object."""
    view = KnownApiPods(world.pods)
    static = static_pod()
    world.pods.add_pod(static)
    uid = PodUid(static.metadata.uid)
    entry: Any = None
    assert view.newest(uid, entry) is None
    mirror = world.add(mirror_pod())
    assert view.newest(uid, entry) == mirror
    answer = replace(mirror, metadata=replace(mirror.metadata, resource_version="100"))
    view.learn(uid, answer)
    assert view.newest(uid, entry) == answer
    caught_up = replace(mirror, metadata=replace(mirror.metadata, resource_version="100"), status=PodStatus())
    world.pods.update_pod(caught_up)
    assert view.newest(uid, entry) == caught_up
    view.forget(uid)
    assert view.newest(uid, entry) == caught_up


async def test_status_is_sent_again_whenever_the_api_shows_another(world: Any) -> None:
    """An agreement found earlier is checked again as soon as either object changes."""
    known = world.add()
    await send(world, known, "ours")
    world.watch()
    for _ in range(3):
        assert await world.manager.sync_batch(all=True) == 0
    for message in ("theirs", "ours", "theirs", "theirs again"):
        current = world.api.documents(schema.PODS)[0]
        world.api.put(schema.PODS, {**current, "status": {**current["status"], "message": message}})
        world.watch()
        assert await world.manager.sync_batch(all=True) == (message != "ours")
        assert world.live("web")["message"] == "ours"
        world.watch()
        assert await world.manager.sync_batch(all=True) == 0
