"""Buffer between the pod watch and PodConfig: keeps the newest state of each pod, removals first."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.kubelet.config.apiserver import ApiPodBuffer
from pykubelet.kubelet.types import PodOperation
from pykubelet.testing.virtual_time import VirtualTimeLoop

MakePod = Callable[..., Pod]


async def test_first_list_is_one_set_even_if_it_is_empty() -> None:
    """Nothing is sent before the initial list is complete."""
    pending = ApiPodBuffer()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pending.take(), 1)
    pending.synced()
    assert await pending.take() == ((PodOperation.SET, ()),)


async def test_changes_are_coalesced_until_taken(make_pod: MakePod) -> None:
    """Only the newest state of a pod is delivered, removals come first, and a relist without changes sends nothing."""
    pending = ApiPodBuffer()
    a, b, c = make_pod("a"), make_pod("b"), make_pod("c", image="v2")
    for pod in (a, b, make_pod("c")):
        pending.added(pod)
    pending.synced()
    pending.deleted(b)
    assert await pending.take() == ((PodOperation.SET, (a, make_pod("c"))),)
    pending.modified(make_pod("c", image="v1.5"))
    pending.modified(c)
    pending.deleted(a)
    pending.added(make_pod("a", "new"))
    assert await pending.take() == ((PodOperation.REMOVE, (a,)), (PodOperation.ADD, (c, make_pod("a", "new"))))
    pending.synced()
    assert await pending.take() == ()


def pod_of(uid: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", uid=uid))


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.sampled_from(["toggle 1", "toggle 2", "toggle 3", "take"]), max_size=20))
def test_taken_messages_add_up_to_the_present_pods(steps: list[str]) -> None:
    """Applying the messages gives the present pods, however the changes are batched."""
    pending, present, taken = ApiPodBuffer(), set[str](), set[str]()
    loop = VirtualTimeLoop()

    def apply() -> None:
        for op, pods in loop.run_until_complete(pending.take()):
            uids = {pod.metadata.uid for pod in pods}
            taken.difference_update(uids if op is PodOperation.REMOVE else ())
            taken.update(() if op is PodOperation.REMOVE else uids)

    pending.synced()
    for step in [*steps, "take"]:
        uid = step.removeprefix("toggle ")
        if step == "take":
            pending.synced()
            apply()
            assert taken == present
        elif uid in present:
            present.remove(uid)
            pending.deleted(pod_of(uid))
        else:
            present.add(uid)
            pending.added(pod_of(uid))
    loop.close()
