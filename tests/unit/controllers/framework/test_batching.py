"""Batching of pod changes: the cost of one change does not grow with the number of pods."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import ApiError, NotFound, ServiceUnavailable
from pykubelet.api.generated.apps import ReplicaSet, ReplicaSetSpec, ReplicaSetStatus
from pykubelet.api.generated.core import Pod, PodStatus, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.client.indexer import ObjectIndex, PodIndex, key_of
from pykubelet.controllers.framework.expectations import UidTrackingExpectations
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.framework.work_queue import BATCH_THRESHOLD, PAUSE_SECONDS_EACH, WorkQueue
from pykubelet.controllers.replicaset.replica_set import ReplicaSetController
from pykubelet.testing.fake_pod_control import FakePodControl
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock, VirtualTimeLoop


async def test_change_among_few_is_not_put_off() -> None:
    """A pause would be noticed and would save nothing."""
    queue = WorkQueue()
    queue.add_batched("a", BATCH_THRESHOLD - 1)
    queue.add_batched("b", BATCH_THRESHOLD)
    assert len(queue) == 1
    assert "b" in queue


@pytest.mark.parametrize(("error", "most_seconds"), [(ServiceUnavailable("full"), 5.0), (NotFound("gone"), 1000.0)])
async def test_retries_stay_frequent_while_the_server_takes_no_writes(error: ApiError, most_seconds: float) -> None:
    """A full disk lasts minutes, and everything must be back to normal soon after it."""
    queue, tried, loop = WorkQueue(), list[float](), asyncio.get_running_loop()

    async def sync(_: str) -> None:
        tried.append(loop.time())
        raise error

    queue.add("a")
    for _ in range(25):
        await queue.process_next(sync)
    assert tried[-1] - tried[-2] == pytest.approx(most_seconds)


@settings(max_examples=30)
@given(
    size=st.integers(BATCH_THRESHOLD, 5000),
    gaps=st.lists(st.floats(0, 0.3), min_size=1, max_size=40),
)
def test_many_changes_are_few_syncs_and_none_is_forgotten(size: int, gaps: list[float]) -> None:
    """A sync starts one pause after the first change that it covers, so syncs are at least a pause apart."""
    pause = size * PAUSE_SECONDS_EACH

    async def act() -> tuple[list[float], float]:
        queue, synced, loop = WorkQueue(), list[float](), asyncio.get_running_loop()

        async def sync(_: str) -> None:
            synced.append(loop.time())

        async with asyncio.TaskGroup() as group:
            worker = start_supervised(group, "worker", lambda: forever(queue, sync))
            for gap in gaps:
                await asyncio.sleep(gap)
                queue.add_batched("a", size)
            last = loop.time()
            await asyncio.sleep(pause * 2)
            worker.cancel()
        return synced, last

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        synced, last = runner.run(act())
    assert all(later - earlier >= pause * 0.999 for earlier, later in itertools.pairwise(synced))
    assert last <= synced[-1] <= last + pause * 1.001


async def forever(queue: WorkQueue, sync: Callable[[str], Awaitable[None]]) -> None:
    while True:
        await queue.process_next(sync)


def crowd(count: int) -> tuple[ReplicaSet, list[Pod]]:
    """A ReplicaSet and its pods."""
    meta = ObjectMeta(name="crowd", namespace="default", uid="u", generation=1, resource_version="1")
    spec = ReplicaSetSpec(replicas=count, selector=LabelSelector(match_labels={"a": "b"}), template=PodTemplateSpec())
    owner = ReplicaSet(metadata=meta, spec=spec)
    fields: dict[str, Any] = {
        "namespace": "default",
        "labels": {"a": "b"},
        "owner_references": (new_controller_ref(owner),),
    }
    return owner, [Pod(metadata=ObjectMeta(name=f"pod-{number}", **fields)) for number in range(count)]


async def test_replica_set_counts_many_pods_at_once() -> None:
    """Its own status write causes no immediate sync, but a change of the spec does."""
    owner, members = crowd(100)
    pods, sets = PodIndex(), ObjectIndex([owner])
    for pod in members:
        pods.put(pod)
    assert pods.count_of_owner(owner) == 100
    controller = ReplicaSetController(
        client=MemoryApi(VirtualClock()),
        pod_control=FakePodControl(),
        pods=pods,
        sets=sets,
        expectations=UidTrackingExpectations(),
        clock=VirtualClock(),
    )
    for pod in members:
        changed = replace(pod, metadata=replace(pod.metadata, resource_version="2"), status=PodStatus(phase="Running"))
        controller.pod_updated(pod, changed)
    controller.set_updated(owner, replace(owner, status=ReplicaSetStatus(replicas=100)))
    assert len(controller.queue) == 0
    assert key_of(owner) in controller.queue
    controller.set_updated(owner, replace(owner, metadata=replace(owner.metadata, generation=2)))
    assert len(controller.queue) == 1
