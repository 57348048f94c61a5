"""Sending statuses: parallel across pods, in order per pod, urgent ones first, with retries."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import schema
from pykubelet.api.errors import Conflict, Forbidden, InternalError, TooManyRequests
from pykubelet.api.generated.core import Pod, PodCondition, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.status.status_manager import IN_FLIGHT, RECONCILE_SECONDS
from pykubelet.testing.build import mirror_pod, pod, static_pod
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

READY = PodStatus(phase="Running", conditions=(PodCondition(type="Ready", status="True"),))


class SlowApi(MemoryApi):
    """An API server whose patches take a second or fail; records parallel and past patches."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.under_way: list[str] = []
        self.most = 0
        self.errors: list[Exception] = []
        self.patched: list[tuple[float, str]] = []

    async def patch(self, kind: Any, name: str, body: Any, **where: Any) -> Any:
        assert name not in self.under_way, "two patches of one pod at once"
        self.under_way.append(name)
        self.most = max(self.most, len(self.under_way))
        self.patched.append((asyncio.get_running_loop().time(), name))
        try:
            await asyncio.sleep(1)
            if self.errors:
                raise self.errors.pop(0)
            return await super().patch(kind, name, body, **where)
        finally:
            self.under_way.remove(name)


@pytest.fixture
def slow(make_world: Any) -> Any:
    api = SlowApi()
    world = make_world(lambda _: api)
    world.api = api
    return world


@asynccontextmanager
async def running(world: Any) -> AsyncIterator[None]:
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.manager.run(ready))
        await ready.wait()
        yield
        task.cancel()


def moments(world: Any) -> list[float]:
    return [round(at, 1) for at, _ in world.api.patched]


async def test_many_pods_go_at_once_when_many_change(slow: Any) -> None:
    """Departure: 64 pods take four rounds of sixteen, not 64 seconds."""
    for number in range(64):
        slow.manager.set_pod_status(slow.add(pod(f"p{number}")), PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(4.5)
        assert (slow.api.most, len(slow.waits)) == (IN_FLIGHT, 64)
        assert set(slow.waits) == {1.0, 2.0, 3.0, 4.0}


async def test_urgent_statuses_go_first_when_many_wait(slow: Any) -> None:
    """Departure: terminal and deleted pods first, then readiness changes, then the rest, whatever came first."""
    for number in range(IN_FLIGHT):
        slow.manager.set_pod_status(slow.add(pod(f"busy{number}")), PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(0.5)
        for number in range(IN_FLIGHT):
            slow.manager.set_pod_status(slow.add(pod(f"rest{number}")), PodStatus(message="one"))
        slow.manager.set_pod_status(slow.add(pod("turns")), READY)
        slow.manager.set_pod_status(slow.add(pod("ends")), PodStatus(phase="Failed"))
        leaving = pod("leaves")
        leaving = replace(leaving, metadata=replace(leaving.metadata, deletion_timestamp="2026-01-01T00:00:30Z"))
        slow.manager.set_pod_status(slow.add(leaving), PodStatus(message="one"))
        await asyncio.sleep(3)
    names = [name for _, name in slow.api.patched[IN_FLIGHT:]]
    assert names == ["ends", "leaves", "turns", *(f"rest{number}" for number in range(IN_FLIGHT))]


async def test_newest_status_follows_when_changes_come_during_a_patch(slow: Any) -> None:
    """Each pod's statuses go in order, and superseded ones are skipped."""
    known = slow.add()
    async with running(slow):
        for message in ("one", "two", "three"):
            slow.manager.set_pod_status(known, PodStatus(message=message))
            await asyncio.sleep(0.2)
        await asyncio.sleep(5)
        assert slow.api.documents(schema.PODS)[0]["status"]["message"] == "three"
        assert moments(slow) == [0.0, 1.0]


async def test_failed_patch_is_tried_again_by_itself_when_nothing_else_happens(slow: Any) -> None:
    """Departure: the retry needs no signal and no tick, and the back-off grows."""
    slow.api.errors = [InternalError("on fire")] * 3
    slow.manager.set_pod_status(slow.add(), PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(9)
        assert slow.live("web")["message"] == "one"
        starts = [at for at, _ in slow.api.patched]
        waits = [later - sooner - 1 for sooner, later in itertools.pairwise(starts)]
        assert waits == [pytest.approx(0.1 * 2**number, rel=0.25) for number in range(3)]


async def test_waits_start_over_when_a_patch_went_through(slow: Any) -> None:
    """A successful patch resets the back-off."""
    known = slow.add()
    async with running(slow):
        for message in ("one", "two"):
            slow.api.errors = [InternalError("on fire")] * 2
            slow.manager.set_pod_status(known, PodStatus(message=message))
            await asyncio.sleep(4)
    starts = [at for at, _ in slow.api.patched]
    assert starts[4] - starts[3] - 1 == pytest.approx(0.1, rel=0.25)


async def test_conflict_is_tried_again_soon_when_reading_did_not_resolve_it(slow: Any) -> None:
    """Another client changes the pod often; a conflict is not a permanent refusal."""
    slow.api.errors = [Conflict("modified")] * 2
    slow.manager.set_pod_status(slow.add(), PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(4)
        assert slow.live("web")["message"] == "one"


async def test_waiting_pod_is_left_alone_when_the_period_is_over(slow: Any) -> None:
    """The reconcile pass does not shorten a back-off."""
    slow.api.errors = [InternalError("on fire")] * 10
    slow.manager.set_pod_status(slow.add(), PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(RECONCILE_SECONDS + 1)
        assert RECONCILE_SECONDS not in moments(slow)
        assert len(moments(slow)) == 6


async def test_retry_after_is_kept_when_the_server_asks_for_it(slow: Any) -> None:
    """Neither a newer status nor the reconcile pass is sent sooner."""
    slow.api.errors = [TooManyRequests("slow down", retry_after_seconds=25)]
    known = slow.add()
    slow.manager.set_pod_status(known, PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(0.5)
        slow.manager.set_pod_status(known, PodStatus(message="two"))
        await asyncio.sleep(5)
        slow.manager.set_pod_status(known, PodStatus(message="three"))
        await asyncio.sleep(30)
        assert moments(slow) == [0.0, 26.0]
        assert slow.live("web")["message"] == "three"


async def test_retry_after_ends_with_the_pod_it_was_for(slow: Any) -> None:
    """The server is asked at once when the pod comes back."""
    slow.api.errors = [TooManyRequests("slow down", retry_after_seconds=25)]
    known = slow.add()
    slow.manager.set_pod_status(known, PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(2)
        slow.manager.remove_orphaned_statuses(())
        slow.manager.set_pod_status(known, PodStatus(message="two"))
        await asyncio.sleep(2)
        assert moments(slow) == [0.0, 2.0]


async def test_refused_patch_waits_for_the_period_when_repeating_it_is_no_use(slow: Any) -> None:
    """A forbidden request is not retried at once, but with the next reconcile pass."""
    slow.api.errors = [Forbidden("no")]
    slow.manager.set_pod_status(slow.add(), PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(RECONCILE_SECONDS + 2)
        assert moments(slow) == [0.0, RECONCILE_SECONDS]
        assert slow.live("web")["message"] == "one"


async def test_newer_status_does_not_wait_when_only_the_one_before_failed(slow: Any) -> None:
    """The back-off applies to the failed status only; a newer one is sent at once."""
    slow.api.errors = [InternalError("on fire")]
    known = slow.add()
    slow.manager.set_pod_status(known, PodStatus(message="one"))
    async with running(slow):
        await asyncio.sleep(0.5)
        slow.manager.set_pod_status(known, PodStatus(message="two"))
        await asyncio.sleep(5)
        assert moments(slow) == [0.0, 1.0]


async def test_status_changed_by_others_is_set_right_when_the_period_is_over(world: Any) -> None:
    """The reconcile pass compares every pod with the API."""
    known = world.add()
    async with running(world):
        world.manager.set_pod_status(known, PodStatus(message="one"))
        await asyncio.sleep(1)
        _change(world, "another's")
        await asyncio.sleep(RECONCILE_SECONDS)
        assert world.live("web")["message"] == "one"


async def test_status_changed_by_others_is_set_right_at_once_when_the_loop_hints_at_it(world: Any) -> None:
    """A watch hint reconciles the pod before the period is over; a hint without a difference sends nothing."""
    known = world.add()
    uid = PodUid(known.metadata.uid)
    async with running(world):
        world.manager.set_pod_status(known, PodStatus(message="one"))
        await asyncio.sleep(0.1)
        _change(world, "another's")
        world.manager.reconcile_pod(uid)
        await asyncio.sleep(0.1)
        assert world.live("web")["message"] == "one"
        world.watch()
        world.calls()
        world.manager.reconcile_pod(uid)
        await asyncio.sleep(0.1)
        assert world.calls() == []


def _change(world: Any, message: str) -> None:
    document = world.api.documents(schema.PODS)[0]
    world.api.put(schema.PODS, {**document, "status": {**document["status"], "message": message}})
    world.watch()


async def test_mirrors_conditions_keep_their_times_at_the_end_of_another_version(world: Any) -> None:
    """A changed static pod whose file is removed before it gets a mirror pod starts from an empty status, each time."""
    first, second = static_pod(), static_pod(content_hash="hash-2")
    world.pods.add_pod(first)
    mirror = world.add(mirror_pod())
    async with running(world):
        world.manager.set_pod_status(first, READY)
        await asyncio.sleep(60)
        before = world.live(mirror.metadata.name)["conditions"]
        world.pods.delete_pod(first)
        world.pods.add_pod(second)
        world.pods.delete_pod(second)
        for message in ("ended", "forgotten"):
            world.manager.set_pod_status(second, replace(READY, message=message))
            await asyncio.sleep(60)
            assert world.live(mirror.metadata.name)["message"] == message
            assert world.live(mirror.metadata.name)["conditions"] == before
            world.manager.remove_orphaned_statuses(())


async def test_static_pods_status_goes_to_its_mirror_when_that_appears(world: Any) -> None:
    """Nothing is sent without a mirror; once it exists, a hint sends the status."""
    static = static_pod()
    uid = PodUid(static.metadata.uid)
    world.pods.add_pod(static)
    async with running(world):
        world.manager.set_pod_status(static, PodStatus(message="one"))
        world.manager.reconcile_pod(uid)
        await asyncio.sleep(30)
        assert world.calls() == []
        mirror = world.add(mirror_pod())
        world.manager.reconcile_pod(mirror.metadata.uid)
        await asyncio.sleep(0.1)
        assert world.calls() == ["patch"]
        assert world.live(static.metadata.name)["message"] == "one"


async def test_delete_follows_soon_when_the_last_resources_are_reclaimed(world: Any) -> None:
    """The delete waits about a second for volumes and cgroup, not for the reconcile period."""
    leaving = pod()
    metadata = replace(leaving.metadata, deletion_timestamp="2026-01-01T00:00:30Z", deletion_grace_period_seconds=30)
    known = world.add(replace(leaving, metadata=metadata))
    world.reclaimed = False
    async with running(world):
        world.manager.terminate_pod(known)
        await asyncio.sleep(0.5)
        world.reclaimed = True
        await asyncio.sleep(1.5)
        assert world.api.documents(schema.PODS) == ()


async def test_crash_while_sending_affects_only_its_own_pod(world: Any, monkeypatch: Any) -> None:
    """The crash is logged and retried; other statuses are sent."""
    odd, fine = world.add(pod("odd")), world.add(pod("fine"))
    crashes = 2

    def could_run(uid: PodUid, /) -> bool:
        nonlocal crashes
        if uid == odd.metadata.uid and crashes:
            crashes -= 1
            raise RuntimeError("no idea")
        return False

    monkeypatch.setattr(world, "could_have_running_containers", could_run)
    async with running(world):
        for known in (odd, fine):
            world.manager.set_pod_status(known, PodStatus(message="one"))
        await asyncio.sleep(0.05)
        assert (world.live("fine")["message"], world.live("odd").get("message")) == ("one", None)
        await asyncio.sleep(1)
        assert world.live("odd")["message"] == "one"


async def test_forgotten_pod_is_not_sent_when_it_waited(slow: Any) -> None:
    """A pod dropped while its status waits, or while it is sent, leaves no state behind."""
    known: Pod = slow.add()
    slow.manager.set_pod_status(known, PodStatus(message="one"))
    slow.manager.remove_orphaned_statuses(())
    async with running(slow):
        await asyncio.sleep(5)
        assert slow.api.patched == []
        slow.manager.set_pod_status(known, PodStatus(message="two"))
        await asyncio.sleep(0.5)
        slow.manager.remove_orphaned_statuses(())
        await asyncio.sleep(5)
        assert slow.manager._records.view._answers == {}
