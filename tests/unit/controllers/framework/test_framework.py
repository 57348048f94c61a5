"""The controller framework: work queue, object index, status patches, adoption checks and aggregate errors."""

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logged_bugs import LoggedBugs
from pykubelet.aio.backoff import Backoff
from pykubelet.aio.log import facts_of
from pykubelet.api import serializer
from pykubelet.api.errors import Conflict, Invalid, NotFound
from pykubelet.api.generated.apps import ReplicaSet, ReplicaSetStatus
from pykubelet.api.generated.batch import JobStatus, UncountedTerminatedPods
from pykubelet.api.generated.meta import ObjectMeta, OwnerReference
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.api.scheme import REPLICA_SETS
from pykubelet.client.indexer import ObjectIndex
from pykubelet.controllers.framework.ownership import OwnerGoneError, explicit, may_adopt, patch_status, store_status
from pykubelet.controllers.framework.pod_control import AggregateError, attempt_all
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


async def test_earliest_delay_counts_and_work_now_does_not_cancel_it() -> None:
    """Later delays never postpone a key."""
    queue, synced = WorkQueue(), list[float]()
    loop = asyncio.get_running_loop()

    async def sync(_: str) -> None:
        synced.append(loop.time())

    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 5)
    queue.add("a")
    await queue.process_next(sync)
    await queue.process_next(sync)
    assert synced == [0, 3]
    assert "a" not in queue
    queue.add_after("a", 0)
    assert len(queue) == 1


async def test_failures_put_a_key_off_longer_and_success_forgets_them() -> None:
    """The backoff doubles with each failure, up to its limit."""
    queue, times = WorkQueue(Backoff(first_seconds=1, limit_seconds=4)), list[float]()
    loop = asyncio.get_running_loop()

    async def sync(_: str) -> None:
        times.append(loop.time())
        if len(times) not in (5, 7):
            raise RuntimeError("again")

    queue.add("a")
    for _ in range(5):
        await queue.process_next(sync)
    assert times == [0, 1, 3, 7, 11]
    assert "a" not in queue
    queue.add("a")
    for _ in range(2):
        await queue.process_next(sync)
    assert times[5:] == [11, 12]


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Conflict("changed"), logging.DEBUG),
        (NotFound("gone"), logging.WARNING),
        (RuntimeError("odd"), logging.WARNING),
        (TypeError("bug"), logging.ERROR),
        (KeyError("bug"), logging.ERROR),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_failure_is_logged_by_its_meaning(
    caplog: pytest.LogCaptureFixture, logged_bugs: LoggedBugs, error: Exception, level: int
) -> None:
    """A bug comes with its traceback; a conflict only means that the object has changed since it was read."""
    queue = WorkQueue()

    async def sync(_: str) -> None:
        raise error

    queue.add("a")
    with caplog.at_level(logging.DEBUG):
        await queue.process_next(sync)
    (record,) = (one for one in caplog.records if one.message == "sync failed")
    assert (record.levelno, record.exc_info is not None) == (level, level == logging.ERROR)
    assert facts_of(record) == {"key": "a", "failures": 1, "cause": str(error)}
    assert logged_bugs.found == ([error] if level == logging.ERROR else [])
    logged_bugs.found.clear()


async def test_key_added_during_its_sync_is_synced_again() -> None:
    """A cancelled sync releases the key."""
    queue, count = WorkQueue(), 0

    async def sync(key: str) -> None:
        nonlocal count
        count += 1
        if count == 1:
            queue.add(key)
        if count == 2:
            queue.add(key)
            raise asyncio.CancelledError

    queue.add("a")
    await queue.process_next(sync)
    with pytest.raises(asyncio.CancelledError):
        await queue.process_next(sync)
    await queue.process_next(sync)
    assert count == 3


def replica_set(name: str = "rs", *, owner: str = "", **meta: Any) -> ReplicaSet:
    references = (OwnerReference(uid=owner, controller=True), OwnerReference(uid="x")) if owner else ()
    fields = {"name": name, "namespace": "default", "uid": f"{name}-uid", **meta}
    return ReplicaSet(metadata=ObjectMeta(owner_references=references, **fields))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "d1", "d2"]), st.booleans()), max_size=20))
def test_index_agrees_with_what_was_put(story: list[tuple[str, str, bool]]) -> None:
    """Puts and removals come in any order."""
    index: ObjectIndex[ReplicaSet] = ObjectIndex()
    expected: dict[str, ReplicaSet] = {}
    for name, owner, is_put in story:
        one = replica_set(name, owner=owner)
        old = index.put(one) if is_put else index.remove(one)
        assert old == expected.pop(name, None)
        if is_put:
            expected[name] = one
    for name in "abc":
        assert index.get(f"default/{name}") == expected.get(name)
    for owner in ("d1", "d2"):
        managed = [
            one
            for one in expected.values()
            if one.metadata.owner_references[:1] and one.metadata.owner_references[0].uid == owner
        ]
        assert sorted(one.metadata.name for one in index.managed_by(owner)) == sorted(
            one.metadata.name for one in managed
        )
    assert index.managed_by("x") == ()


@pytest.mark.parametrize(
    ("fields", "resolves"),
    [({}, True), ({"kind": "Job"}, False), ({"name": "other"}, False), ({"uid": "other"}, False)],
)
def test_reference_resolves_to_the_very_object(fields: dict[str, str], resolves: bool) -> None:
    """Kind, name, UID and namespace must match."""
    index = ObjectIndex([replica_set()])
    reference = OwnerReference(**{"kind": "ReplicaSet", "name": "rs", "uid": "rs-uid", **fields})  # type: ignore[arg-type]  # only str fields
    assert (index.resolve("default", reference) is not None) == resolves
    assert index.resolve("elsewhere", reference) is None
    assert index.resolve("default", None) is None


def test_explicit_status_sets_every_field() -> None:
    """As a merge patch it removes former values and leaves unknown fields alone."""
    old = {"active": 3, "uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]}, "new-field": 1}
    status = JobStatus(ready=0, uncounted_terminated_pods=UncountedTerminatedPods(failed=("c",)))
    merged = apply_merge(old, explicit(status))
    assert merged == {"ready": 0, "uncountedTerminatedPods": {"failed": ["c"]}, "new-field": 1}
    assert serializer.from_document(merged, JobStatus) == status
    assert apply_merge({}, explicit(JobStatus(uncounted_terminated_pods=UncountedTerminatedPods()))) == {
        "uncountedTerminatedPods": {}
    }


async def stored(api: MemoryApi, **meta: Any) -> ReplicaSet:
    document = api.put(REPLICA_SETS.resource, serializer.to_document(replica_set(**meta)))
    return serializer.from_document(document, ReplicaSet)


async def test_status_write_is_retried_with_a_fresh_copy() -> None:
    """The status of a recreated object is never written."""
    api = MemoryApi(VirtualClock())
    old = await stored(api)
    await stored(api, labels={"a": "b"})
    status = explicit(ReplicaSetStatus(replicas=3))
    with pytest.raises(Conflict):
        await patch_status(api, REPLICA_SETS, old, status)
    assert (await store_status(api, REPLICA_SETS, old, status)).status.replicas == 3
    await stored(api, uid="another")
    with pytest.raises(Invalid):
        await store_status(api, REPLICA_SETS, old, status)
    api.remove(REPLICA_SETS.resource, namespace="default", name="rs")
    with pytest.raises(NotFound):
        await store_status(api, REPLICA_SETS, old, status)


async def test_owner_that_is_gone_or_another_may_not_adopt() -> None:
    """A live read decides, and the error gives the reason."""
    api = MemoryApi(VirtualClock())
    owner = await stored(api)
    check = may_adopt(api, REPLICA_SETS, owner)
    await check()
    await stored(api, uid="another")
    gone = "can't recheck DeletionTimestamp: original ReplicaSet default/rs is gone: got uid another, wanted rs-uid"
    with pytest.raises(OwnerGoneError, match=f"^{gone}$"):
        await check()
    api.remove(REPLICA_SETS.resource, namespace="default", name="rs")
    with pytest.raises(OwnerGoneError, match=r"^can't recheck DeletionTimestamp: .* not found$"):
        await check()


async def test_attempts_are_all_made_and_their_errors_returned() -> None:
    """Results keep their order; a cancellation propagates."""

    async def call(error: BaseException | None) -> None:
        if error is not None:
            raise error

    first, second = ValueError("a"), ValueError("b")
    assert await attempt_all(call(error) for error in (first, None, second)) == [first, None, second]
    with pytest.raises(asyncio.CancelledError):
        await attempt_all([call(asyncio.CancelledError())])
    assert str(AggregateError([first, second, ValueError("a")])) == "[a, b]"
    assert str(AggregateError([first, ValueError("a")])) == "a"
