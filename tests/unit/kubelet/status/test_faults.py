"""Status updates under faults: the API ends with the last status, and each pod's statuses arrive in order."""

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api import schema
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.api.serializer import from_document, to_document
from pykubelet.client.interface import Client
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.testing.build import pod
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock, VirtualTimeLoop

# Longer than every back-off, Retry-After and delay of the faults, and than a reconcile period for each of four faults.
SETTLED_SECONDS = 60


class Safety:
    """No containers run and all resources are reclaimed."""

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return False

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: PodStatus, /) -> bool:
        return True


class Scenario:
    """Three pods whose statuses change over time, through a client that faults."""

    def __init__(self, faults: list[tuple[Fault, int]]) -> None:
        self.api = MemoryApi(VirtualClock())
        client: Any = self.api
        self.faulty = [client := FaultyClient(client, fault, at=at) for fault, at in faults]
        checked: Client = client
        self.pods = PodManager()
        self.manager = StatusManager(client=checked, pods=self.pods, safety=Safety(), clock=VirtualClock())
        self.known = [self._add(pod(f"p{number}")) for number in range(3)]
        self.numbers = itertools.count(1)
        self.last: dict[str, str] = {}

    def _add(self, known: Pod) -> Pod:
        seen = from_document(self.api.put(schema.PODS, to_document(known)), Pod)
        self.pods.add_pod(seen)
        return seen

    async def play(self, script: list[tuple[int, float]]) -> None:
        """Sets the statuses of the script, with pauses, and waits until all are settled."""
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.manager.run(ready))
            await ready.wait()
            for index, pause in script:
                self.last[f"p{index}"] = f"{next(self.numbers):04}"
                self.manager.set_pod_status(self.known[index], PodStatus(message=self.last[f"p{index}"]))
                await asyncio.sleep(pause)
            await asyncio.sleep(SETTLED_SECONDS)
            task.cancel()

    def check(self) -> None:
        held = {one["metadata"]["name"]: one["status"].get("message") for one in self.api.documents(schema.PODS)}
        assert {name: held[name] for name in self.last} == self.last
        for name in self.last:
            sent = [call.body["status"]["message"] for call in self.api.calls if _is_patch_of(call, name)]
            assert sent == sorted(sent)


def _is_patch_of(call: Any, name: str) -> bool:
    return (call.verb, call.name) == ("patch", name) and "message" in call.body.get("status", {})


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(CALL_FAULTS), st.integers(0, 6)), max_size=4),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.01, 0.3, 5.0])), min_size=1, max_size=8),
)
def test_api_ends_with_the_last_status_whatever_fails(
    faults: list[tuple[Fault, int]], script: list[tuple[int, float]]
) -> None:
    """Any combination of faults at any requests."""

    async def play() -> None:
        scenario = Scenario(faults)
        await scenario.play(script)
        scenario.check()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play())


@pytest.mark.parametrize("fault", CALL_FAULTS)
async def test_api_ends_with_the_last_status_wherever_one_fault_hits(fault: Fault) -> None:
    """Each fault at each request of one scenario, until all requests were hit."""
    for at in itertools.count():
        scenario = Scenario([(fault, at)])
        await scenario.play([(0, 0.0), (1, 0.5), (0, 0.0), (0, 2.0), (2, 0.0)])
        scenario.check()
        if not scenario.faulty[0].injected:
            assert at > 3
            return


@pytest.mark.parametrize("fault", CALL_FAULTS)
async def test_pod_is_gone_in_the_end_wherever_one_fault_hits_its_deletion(fault: Fault) -> None:
    """The last status arrives, then the pod is deleted from the API."""
    for at in itertools.count():
        scenario = Scenario([(fault, at)])
        known = scenario.known[0]
        metadata = replace(known.metadata, deletion_timestamp="2026-01-01T00:00:30Z", deletion_grace_period_seconds=30)
        leaving = scenario._add(replace(known, metadata=metadata))
        scenario.manager.terminate_pod(leaving)
        await scenario.play([(1, 0.0)])
        scenario.check()
        assert [one["metadata"]["name"] for one in scenario.api.documents(schema.PODS)] == ["p1", "p2"]
        deletes = [call.body["preconditions"] for call in scenario.api.calls if call.verb == "delete"]
        assert set(map(str, deletes)) == {str({"uid": leaving.metadata.uid})}
        if not scenario.faulty[0].injected:
            return
