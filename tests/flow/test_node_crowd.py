"""A hundred pods at once on one node, most of them failing in some way: all reach their expected state."""

import asyncio
from pathlib import Path
from typing import Any

from pykubelet.api.generated.core import Pod
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, ImageBehaviour
from whole_node import container, is_ready, status_of, world

SCRIPTS = {
    "crash": Behaviour(runs=(ContainerRun(seconds=1, exit_code=1),)),
    "short": Behaviour(runs=(ContainerRun(seconds=3),)),
    "bad": Behaviour(runs=(ContainerRun(seconds=2, exit_code=2),)),
    "flaky": Behaviour(runs=(ContainerRun(seconds=1, exit_code=1), ContainerRun(seconds=1))),
    "refused": Behaviour(create_error="no space left"),
    "stuck": Behaviour(hangs_on=("start",)),
    "unwell": Behaviour(is_healthy=False),
}
IMAGES = {
    "example/missing:1": ImageBehaviour(pull_error="not found"),
    "example/slow:1": ImageBehaviour(pull_seconds=20),
}
PROBE = {"httpGet": {"port": 80}, "periodSeconds": 1}


def waits(reason: str) -> Any:
    """Whether the pod's container waits for this reason."""

    def holds(pod: Pod) -> bool:
        waiting = pod.status.container_statuses[0].state.waiting if pod.status.container_statuses else None
        return waiting is not None and waiting.reason == reason

    return holds


def has_phase(phase: str) -> Any:
    """Whether the pod is in this phase."""
    return lambda pod: pod.status.phase == phase


KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "good": ({"containers": [container()]}, is_ready),
    "slow": ({"containers": [container(image="example/slow:1")]}, is_ready),
    "crash": ({"containers": [container("crash")]}, waits("CrashLoopBackOff")),
    "missing": ({"containers": [container(image="example/missing:1")]}, waits("ImagePullBackOff")),
    "short": ({"containers": [container("short")], "restartPolicy": "Never"}, has_phase("Succeeded")),
    "bad": ({"containers": [container("bad")], "restartPolicy": "Never"}, has_phase("Failed")),
    "flaky": ({"containers": [container("flaky")], "restartPolicy": "OnFailure"}, has_phase("Succeeded")),
    "refused": ({"containers": [container("refused")]}, waits("CreateContainerError")),
    "stuck": ({"containers": [container("stuck")]}, has_phase("Pending")),
    "unwell": (
        {"containers": [container("unwell", readinessProbe=PROBE)]},
        lambda pod: pod.status.phase == "Running" and not is_ready(pod) and bool(status_of(pod, "unwell").started),
    ),
}


async def test_hundred_pods_with_mixed_failures_converge_and_go(tmp_path: Path) -> None:
    """Each pod reaches its state whatever the others do, and all of them can be deleted without leftovers."""
    async with world(tmp_path, scripts=SCRIPTS, images=IMAGES) as outside, outside.running_node():
        names = {f"{kind}-{number}": kind for number in range(10) for kind in KINDS}
        for name, kind in names.items():
            await outside.create(name, terminationGracePeriodSeconds=2, **KINDS[kind][0])
        for name, kind in names.items():
            await outside.until(name, KINDS[kind][1], within_seconds=60)
        for name in names:
            await outside.delete(name)
        for name in names:
            await outside.until_gone(name, within_seconds=60)
        await asyncio.sleep(70)
        assert list(await outside.sim.pods()) == []
        assert list((tmp_path / "node/pods").iterdir()) == []
        assert list((tmp_path / "node/logs/pods").iterdir()) == []
