"""The CRI runtime against a fake CRI server that counts calls: call costs, events, and cgroup drivers."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cri_api.v1 import api_pb2 as cri

from fake_cri import FakeCri, serving
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.channel import CriChannel, CriFailure
from pykubelet.runtimes.cri.connect import CriSettings, cgroup_driver, open_cri
from pykubelet.runtimes.cri.events import CriEventFeed, OperationsInProgress
from pykubelet.runtimes.cri.host import find_socket
from pykubelet.runtimes.cri.pods import CriPodInspector
from pykubelet.runtimes.protocol import ChangeHints, ContainerState


@pytest.fixture
def fake() -> FakeCri:
    return FakeCri()


@pytest.fixture
async def channel(fake: FakeCri, tmp_path: Path) -> AsyncIterator[CriChannel]:
    async with serving(fake, tmp_path) as socket, CriChannel(f"unix://{socket}") as channel:
        yield channel


async def test_relist_requests_the_status_only_of_changed_containers(fake: FakeCri, channel: CriChannel) -> None:
    """It makes two list calls, however many pods there are."""
    looks = CriPodInspector(channel)
    for number in range(20):
        fake.add(f"pod-{number}")
    created = fake.add("created", state=cri.CONTAINER_CREATED)
    assert len(await looks.everything()) == 21
    assert fake.calls == {"ListPodSandbox": 1, "ListContainers": 1, "PodSandboxStatus": 21, "ContainerStatus": 20}
    fake.calls.clear()
    fake.containers["main-pod-7"].state = cri.CONTAINER_EXITED
    fake.containers["main-pod-7"].exit_code = 3
    await looks.everything()
    found = {pod.uid: pod for pod in await looks.everything()}
    assert fake.calls == {"ListPodSandbox": 2, "ListContainers": 2, "ContainerStatus": 1}
    assert {uid: pod.containers[0].exit_code for uid, pod in found.items() if pod.containers[0].exit_code} == {
        "pod-7": 3
    }
    assert [pod.containers[0].id for pod in found.values() if pod.containers[0].state == ContainerState.CREATED] == [
        created
    ]


async def test_inspecting_one_pod_requests_no_status_of_others(fake: FakeCri, channel: CriChannel) -> None:
    """A later relist reuses the statuses it has read."""
    looks = CriPodInspector(channel)
    fake.add("one")
    fake.add("other")
    pod = await looks.of_pod(PodUid("one"))
    assert pod is not None
    assert (pod.uid, [one.id for one in pod.containers]) == ("one", ["main-one"])
    assert await looks.of_pod(PodUid("nobody")) is None
    assert (fake.calls["PodSandboxStatus"], fake.calls["ContainerStatus"]) == (1, 1)
    await looks.everything()
    assert (fake.calls["PodSandboxStatus"], fake.calls["ContainerStatus"]) == (2, 2)


async def test_container_removed_between_list_and_status_is_left_out(fake: FakeCri, channel: CriChannel) -> None:
    looks = CriPodInspector(channel)
    fake.add("one")
    ghost = fake.containers["main-one"]
    fake.containers["main-one"] = cri.ContainerStatus(
        id="ghost", metadata=ghost.metadata, state=ghost.state, labels=ghost.labels
    )
    (pod,) = await looks.everything()
    assert pod.containers == ()


async def test_relist_forgets_removed_pods(fake: FakeCri, channel: CriChannel) -> None:
    """The inspector's memory does not grow with pods that were removed."""
    looks = CriPodInspector(channel)
    fake.add("one")
    await looks.everything()
    assert (looks.owners(), looks.owner("main-one"), await looks.is_sandbox("box-one")) == ({"one"}, "one", True)
    fake.sandboxes.clear()
    fake.containers.clear()
    assert list(await looks.everything()) == []
    assert (looks.owners(), looks.owner("main-one"), await looks.is_sandbox("box-one")) == (set(), None, False)


def _event(id: str, kind: Any, **fields: Any) -> cri.ContainerEventResponse:
    return cri.ContainerEventResponse(container_id=id, container_event_type=kind, **fields)


async def test_events_of_cri_are_hints(fake: FakeCri, tmp_path: Path) -> None:
    """The pod UID comes from the sandbox status of the event, or from the known owner of the container."""
    fake.add("known")
    async with serving(fake, tmp_path) as socket, open_cri(CriSettings(socket=socket)) as opened:
        assert opened.has_changes
        await opened.runtime.pods()
        changes = opened.runtime.changes()
        told = cri.PodSandboxStatus(metadata=cri.PodSandboxMetadata(uid="told"))
        stopped = cri.CONTAINER_STOPPED_EVENT
        await fake.events.put(_event("x", stopped, pod_sandbox_status=told))
        assert await anext(changes) == "told"
        await fake.events.put(_event("nobody's", stopped))
        await fake.events.put(_event("main-known", stopped))
        assert await anext(changes) == "known"


async def test_runtime_without_an_event_feed_is_detected(tmp_path: Path) -> None:
    """The node then relists periodically."""
    fake = FakeCri(has_events=False)
    async with serving(fake, tmp_path) as socket:
        async with open_cri(CriSettings(socket=socket)) as opened:
            assert (opened.name, opened.version, opened.has_changes) == ("fake", "1", False)
        async with CriChannel(f"unix://{socket}") as channel:
            looks, hints = CriPodInspector(channel), ChangeHints()
            feed = CriEventFeed(
                channel=channel,
                inspector=looks,
                hints=hints,
                operations=OperationsInProgress(inspector=looks, hints=hints),
            )
            async with asyncio.timeout(5):
                await feed.run()
            assert feed.has_no_events.is_set()


SYSTEMD_CONFIG = {
    "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {"SystemdCgroup": True}}}}
}
CGROUPFS_CONFIG = {"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": None}}}}


@pytest.mark.parametrize(
    ("has_config", "config", "driver"),
    [
        (True, "", "systemd"),
        (False, json.dumps(SYSTEMD_CONFIG), "systemd"),
        (False, json.dumps(CGROUPFS_CONFIG), "cgroupfs"),
        (False, "{}", "cgroupfs"),
        (False, "", "cgroupfs"),
    ],
    ids=["asked", "containerd with systemd", "containerd without", "no runtimes", "nothing told"],
)
async def test_cgroup_driver_is_the_runtimes(tmp_path: Path, has_config: bool, config: str, driver: str) -> None:
    """For a runtime without the RuntimeConfig call, the driver comes from containerd's configuration."""
    fake = FakeCri(has_config=has_config, config=config)
    async with serving(fake, tmp_path) as socket, CriChannel(f"unix://{socket}") as channel:
        assert await cgroup_driver(channel) == driver


async def test_failure_message_has_the_form_of_go_grpc(channel: CriChannel) -> None:
    """People search for these messages."""
    with pytest.raises(CriFailure) as failure:
        await channel.call(cri.StartContainerRequest(container_id="x"), cri.StartContainerResponse)
    assert failure.value.message == "rpc error: code = Unimplemented desc = unknown method StartContainer"
    assert failure.value.plain().message == "unknown method StartContainer"


async def test_call_that_takes_too_long_fails(channel: CriChannel) -> None:
    """A runtime that hangs does not block the node."""
    with pytest.raises(CriFailure, match="DeadlineExceeded"):
        await channel.call(cri.ExecSyncRequest(), cri.ExecSyncResponse, timeout_seconds=0.1)


async def test_closing_ends_calls_that_no_task_waits_for(fake: FakeCri, tmp_path: Path) -> None:
    """A timed-out command is cancelled later, but before its channel closes; a second cancel does no harm."""
    async with serving(fake, tmp_path) as socket:
        async with open_cri(CriSettings(socket=socket)) as opened:
            before = asyncio.all_tasks()
            with pytest.raises(TimeoutError):
                await opened.runtime.run("x", ("sleep", "1"), timeout_seconds=0.1, limit_bytes=100)
            left = asyncio.all_tasks() - before
            assert left
        await asyncio.sleep(0)
        assert not [task for task in left if not task.done() and "grpc" in repr(task.get_coro())]
        async with CriChannel(f"unix://{socket}") as channel:
            request = cri.ExecSyncRequest()
            call = asyncio.create_task(channel.call(request, cri.ExecSyncResponse, finish_seconds=60))
            for _ in range(2):
                await asyncio.sleep(0.05)
                call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert not channel._pending


def test_socket_is_the_one_that_was_given() -> None:
    """The `unix://` scheme is optional."""
    assert find_socket("unix:///run/some.sock") == find_socket("/run/some.sock") == "/run/some.sock"
