"""Users of objects, per-pod locks, threads and paths of pods."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.aio.threads import in_thread
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.objectcache.pod_objects import ObjectUsers, UsedObject
from pykubelet.kubelet.volumemanager.errors import VolumesNotReady
from pykubelet.kubelet.volumemanager.pod_dirs import PodLocks, pod_dir

OBJECTS = [UsedObject("secret", "ns", "a"), UsedObject("configmap", "ns", "a"), UsedObject("secret", "other", "a")]
STEPS = st.lists(st.tuples(st.sampled_from("xyz"), st.frozensets(st.sampled_from(OBJECTS))), max_size=12)


@settings(max_examples=100)
@given(STEPS)
def test_interest_is_the_same_both_ways(steps: list[tuple[str, frozenset[UsedObject]]]) -> None:
    """After any number of changes; users without objects are forgotten."""
    interest, expected = ObjectUsers[str](), dict[str, frozenset[UsedObject]]()
    for who, objects in steps:
        interest.set(who, objects)
        expected[who] = objects
    for named in OBJECTS:
        assert sorted(interest.users(named)) == sorted(who for who, objects in expected.items() if named in objects)
    assert interest.as_map() == {who: objects for who, objects in expected.items() if objects}
    assert set(interest.users(None)) == interest.as_map().keys()


async def test_turn_of_a_pod_has_one_at_a_time_and_leaves_nothing() -> None:
    """Holders take turns in order; other pods do not wait."""
    turns, seen = PodLocks(), list[str]()

    async def work(uid: str, name: str) -> None:
        async with turns.hold(PodUid(uid)):
            seen.append(f"{name} begins")
            await asyncio.sleep(1)
            seen.append(f"{name} ends")

    async with asyncio.timeout(2.5), asyncio.TaskGroup() as group:
        for uid, name in (("a", "first"), ("a", "second"), ("b", "other")):
            group.create_task(work(uid, name))
    assert [line for line in seen if "other" not in line] == [
        "first begins",
        "first ends",
        "second begins",
        "second ends",
    ]
    assert seen.index("other begins") < seen.index("first ends")
    assert len(turns) == 0


async def test_thread_is_waited_for_when_its_caller_is_cancelled() -> None:
    """The next lock holder must not run beside the thread; the thread's own error is dropped."""
    steps: list[str] = []
    go = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
        steps.append("thread ended")
        raise OSError("too late")

    async def call() -> None:
        try:
            await in_thread(work)
        finally:
            steps.append("caller ended")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(call())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
    assert steps == ["thread ended", "caller ended"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0"])
def test_path_of_a_pod_is_refused_when_a_part_is_no_name(name: str) -> None:
    """No path can leave its folder."""
    with pytest.raises(OSError, match="is not a name that a file can have"):
        pod_dir("/root", name)
    directory = pod_dir("/root", "uid")
    with pytest.raises(OSError, match="is not a name"):
        directory.volume("kubernetes.io/secret", name)
    with pytest.raises(OSError, match="is not a name"):
        directory.termination_file(name, 0)
    assert directory.volume("kubernetes.io/secret", "v") == "/root/pods/uid/volumes/kubernetes.io~secret/v"


def test_volumes_that_are_not_ready_are_named_as_upstream_does() -> None:
    """Names are sorted, in brackets."""
    problem = VolumesNotReady(unmounted=["b", "a"], refused=["b"], cause="no")
    assert str(problem) == "unmounted volumes=[a b], unattached volumes=[], failed to process volumes=[b]: no"
