"""Few CRI calls suffice when many pods start at once, and no change is missed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cri_api.v1 import api_pb2 as cri

from fake_cri import FakeCri, serving
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.channel import CriChannel
from pykubelet.runtimes.cri.connect import CriSettings, open_cri
from pykubelet.runtimes.cri.pods import CriPodInspector, SharedListings
from pykubelet.runtimes.cri.runtime import CriImages
from pykubelet.runtimes.protocol import RuntimeFailure


@pytest.fixture
def fake() -> FakeCri:
    return FakeCri()


@pytest.fixture
async def channel(fake: FakeCri, tmp_path: Path) -> AsyncIterator[CriChannel]:
    async with serving(fake, tmp_path) as socket, CriChannel(f"unix://{socket}") as channel:
        yield channel


async def asked(fake: FakeCri, name: str, times: int = 1) -> None:
    """Wait until the runtime has received this call so many times."""
    async with asyncio.timeout(5):
        while fake.calls[name] < times:
            await asyncio.sleep(0.005)


async def test_concurrent_inspections_share_lists(fake: FakeCri, channel: CriChannel) -> None:
    """The first uses its own list, all others share the second; each gets its own pod."""
    looks, uids = CriPodInspector(channel), [PodUid(f"pod-{number}") for number in range(20)]
    for uid in uids:
        fake.add(uid)
    found = await asyncio.gather(*map(looks.of_pod, uids))
    assert [pod.uid if pod is not None else None for pod in found] == uids
    assert all(pod is not None and len(pod.containers) == len(pod.sandboxes) == 1 for pod in found)
    assert (fake.calls["ListContainers"], fake.calls["ListPodSandbox"]) == (2, 2)


async def test_inspection_does_not_join_a_list_in_progress(fake: FakeCri, channel: CriChannel) -> None:
    """That list may lack a pod that already existed when the inspection began."""
    listings, gate = SharedListings(channel), asyncio.Event()
    fake.gates["ListContainers"] = gate
    async with asyncio.TaskGroup() as group:
        first = group.create_task(listings.everything())
        await asked(fake, "ListContainers")
        fake.add("new")
        second = group.create_task(listings.of_pod(PodUid("new")))
        await asyncio.sleep(0)
        gate.set()
    assert [one.id for one in first.result().containers] == []
    assert [one.id for one in second.result().containers] == ["main-new"]


async def test_others_list_when_the_first_gives_up(fake: FakeCri, channel: CriChannel) -> None:
    """Cancelling one caller does not cancel the others that share its list."""
    listings, gate = SharedListings(channel), asyncio.Event()
    fake.add("one")
    fake.gates["ListContainers"] = gate
    async with asyncio.TaskGroup() as group:
        first, second = (group.create_task(listings.of_pod(PodUid("one"))) for _ in range(2))
        await asked(fake, "ListContainers")
        first.cancel()
        gate.set()
    assert [one.id for one in second.result().containers] == ["main-one"]
    assert first.cancelled()


async def test_container_is_never_without_its_sandbox(fake: FakeCri, channel: CriChannel) -> None:
    """When a pod is created between the two lists, the sandboxes are listed again."""
    listings, gate = SharedListings(channel), asyncio.Event()
    fake.gates["ListPodSandbox"] = gate
    fake.add("one")
    late = fake.sandboxes.pop("box-one")
    async with asyncio.TaskGroup() as group:
        listing = group.create_task(listings.everything())
        await asked(fake, "ListPodSandbox")
        fake.sandboxes["box-one"] = late
        gate.set()
    assert [one.id for one in listing.result().sandboxes] == ["box-one"]
    assert fake.calls["ListPodSandbox"] == 2


async def test_container_created_during_a_list_keeps_its_owner(fake: FakeCri, channel: CriChannel) -> None:
    """The list lacks it, but without its owner its start event would be lost."""
    looks, gate = CriPodInspector(channel), asyncio.Event()
    looks.record_created("gone", PodUid("old"), is_sandbox=True)
    fake.gates["ListContainers"] = gate
    async with asyncio.TaskGroup() as group:
        group.create_task(looks.everything())
        await asked(fake, "ListContainers")
        looks.record_created("made", PodUid("new"), is_sandbox=False)
        gate.set()
    assert (looks.owner("made"), looks.owner("gone")) == ("new", None)


async def test_observed_exit_is_not_requested_again(fake: FakeCri, channel: CriChannel) -> None:
    """The next inspection reuses the exit that an operation has already waited for."""
    looks = CriPodInspector(channel)
    fake.add("one")
    await looks.everything()
    fake.containers["main-one"].state = cri.CONTAINER_EXITED
    fake.containers["main-one"].exit_code = 3
    fake.sandboxes["box-one"].state = cri.SANDBOX_NOTREADY
    await looks.ended_container("main-one")
    await looks.ended_sandbox("box-one")
    fake.calls.clear()
    pod = await looks.of_pod(PodUid("one"))
    assert pod is not None
    assert (pod.containers[0].exit_code, pod.containers[0].sandbox_id) == (3, "box-one")
    assert not pod.sandboxes[0].is_ready
    assert fake.calls == {"ListPodSandbox": 1, "ListContainers": 1}


async def test_own_operation_emits_its_change_when_it_completes(fake: FakeCri, tmp_path: Path) -> None:
    """CRI events during the operation are suppressed, as they would cause an inspection too early."""
    gate = asyncio.Event()
    fake.add("one")
    fake.gates["StopContainer"] = gate
    async with serving(fake, tmp_path) as socket, open_cri(CriSettings(socket=socket)) as opened:
        await opened.runtime.pods()
        changes = opened.runtime.changes()
        async with asyncio.TaskGroup() as group:
            stop = group.create_task(opened.runtime.stop("main-one", 1))
            await asked(fake, "StopContainer")
            await fake.events.put(_event("main-one", cri.CONTAINER_STOPPED_EVENT))
            await fake.events.put(_event("other", cri.CONTAINER_CREATED_EVENT, "created"))
            await fake.events.put(_event("other", cri.CONTAINER_STARTED_EVENT, "started"))
            assert await anext(changes) == "started"
            gate.set()
        assert stop.done()
        assert await anext(changes) == "one"


async def test_failed_operation_emits_a_change_too(fake: FakeCri, tmp_path: Path) -> None:
    """A failed start leaves an exited container."""
    fake.add("one")
    async with serving(fake, tmp_path) as socket, open_cri(CriSettings(socket=socket)) as opened:
        await opened.runtime.pods()
        changes = opened.runtime.changes()
        with pytest.raises(RuntimeFailure):
            await opened.runtime.start("main-one")
        assert await anext(changes) == "one"


async def test_user_of_an_image_is_requested_once(fake: FakeCri, channel: CriChannel) -> None:
    """An image ID identifies the content, so the answer stays valid."""
    images = CriImages(channel)
    found = await images.find("web")
    assert found is not None
    assert [await images.user_of(found.id) for _ in range(3)] == ["worker"] * 3
    assert fake.calls == {"ImageStatus": 1}


def _event(id: str, kind: Any, uid: str = "") -> cri.ContainerEventResponse:
    status = cri.PodSandboxStatus(metadata=cri.PodSandboxMetadata(uid=uid))
    return cri.ContainerEventResponse(container_id=id, container_event_type=kind, pod_sandbox_status=status)
