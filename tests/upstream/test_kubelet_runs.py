"""Pod lives recorded from kubelet v1.34.11 with containerd, lived again on the simulated runtime.

The same states in the same order, the same final object field by field, the same events in the same words.
"""

import json
from pathlib import Path

import pytest

import recorded_runs
from pykubelet.api.generated.core import Pod
from pykubelet.api.wire import Document, from_document
from pykubelet.runtime.sim import ImageBehaviour
from recorded_runs import Life, Replay
from shell_scripts import ShellCommands, behaviour
from whole_node import world

PRESENT = ImageBehaviour(is_present=True)
IMAGES = dict.fromkeys(("localhost/busybox:1", "registry.k8s.io/e2e-test-images/busybox:1.36.1-1"), PRESENT)
EARLIER = {"static": 2}
"""States shown here that the kubelet was too slow to show: a mirror whose containers are being created."""
UNSEEN = {"crash-loop": 2, "init-fails-always": 2, "retry": 2, "sidecar": 1}
"""States that may go unseen: containers have ended, and what follows from that is known here in the same moment."""
COUNTED_OTHERWISE = {"crash-loop", "deadline", "init-fails-always"}
"""Lives with events that the kubelet repeats whenever it looks; here it is told once for each time it happens."""


async def replayed(name: str, folder: Path) -> Life:
    """A recorded life, lived again."""
    recording = recorded_runs.load(name)
    pod = from_document(recorded_runs.pods_in(recording)[0], Pod)
    manifests = folder / "manifests"
    manifests.mkdir()
    scripts = {one.name: behaviour(one) for one in (*pod.spec.init_containers, *pod.spec.containers)}
    async with world(folder, scripts=scripts, images=IMAGES, sandbox_seconds=0.3) as outside:
        outside.use(name="containerd", commands=ShellCommands(outside.sim, pod))
        async with outside.running_node(node_name=recorded_runs.NODE, manifests=manifests):
            replay = Replay(recording, client=outside.api, manifests=manifests, clock=outside.clock)
            return await replay.run()


@pytest.mark.parametrize("name", recorded_runs.NAMES)
async def test_pod_lives_as_on_the_kubelet(name: str, tmp_path: Path) -> None:
    """A pod goes through the recorded states to the recorded end, with the recorded events."""
    recording = recorded_runs.load(name)
    life = await replayed(name, tmp_path)
    shown = recording["pod_as_seen_by_a_watch"]
    positions = life.positions(recording)
    unseen = [state for state, at in zip(shown, positions, strict=True) if at is None]
    assert len(unseen) <= UNSEEN.get(name, 0)
    assert all('"terminated"' in json.dumps(state) for state in unseen)
    last = positions[-1]
    assert last is not None
    assert [life.states[n] for n in range(last) if n not in positions][EARLIER.get(name, 0) :] == []
    assert life.objects[last] == recording["last_full_object"]
    with_counts = name not in COUNTED_OTHERWISE
    assert told(life.events, with_counts) == told(recording["kubelet_events"], with_counts)


def told(events: list[Document], with_counts: bool) -> list[tuple[str, ...]]:
    """What users read, in an order of its own."""
    names = ("object", "type", "reason", "message", *(("count",) if with_counts else ()))
    return sorted(tuple(str(event[name]) for name in names) for event in events)
