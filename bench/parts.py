"""Measures merge, decode, status and memory in-process, and prints the figures as JSON on standard output.

Times are the best of several rounds: a busy machine can only make the code slower.
"""

import asyncio
import gc
import json
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

from machine import machine
from msgspec import Struct
from msgspec.structs import replace

from pykubelet.aio.clock import SystemClock
from pykubelet.api import serializer
from pykubelet.api.generated.core import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodCondition
from pykubelet.api.pods import PodUid
from pykubelet.api.schema import PODS as POD_NAMES
from pykubelet.app.program import tune_garbage_collection
from pykubelet.kubelet.config.config import PodConfig
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import PodOperation, PodUpdate
from pykubelet.testing.memory_api import MemoryApi

CLOCK = SystemClock()
AT = "2026-01-01T00:00:00Z"


class PodList(Struct, frozen=True, gc=False):
    """The response to a list request."""

    items: tuple[Pod, ...]


class Silent:
    """An event recorder that discards events."""

    def event(self, *_: Any) -> None:
        return


class NothingRuns:
    """Reports that no pod has running containers."""

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return False

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: Any, /) -> bool:
        return True


def document(number: int) -> dict[str, Any]:
    """A pod of about 6 KB as an API server sends it: two containers, probes, volumes, full status."""
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    containers = [
        {
            "name": f"c{n}",
            "image": f"registry.example/team/app-{n}:v1.2.{number % 10}",
            "args": [f"--flag-{i}=value-{i}" for i in range(8)],
            "env": [{"name": f"SETTING_{i}", "value": f"value of setting {i}"} for i in range(12)],
            "ports": [{"name": "http", "containerPort": 8080 + n, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
            "volumeMounts": [{"name": f"v{i}", "mountPath": f"/mnt/v{i}"} for i in range(4)],
            "livenessProbe": probe,
            "readinessProbe": probe,
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
        }
        for n in range(2)
    ]
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": AT}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    statuses = [
        {
            "name": f"c{n}",
            "image": f"registry.example/team/app-{n}:v1",
            "imageID": f"sha256:{number:064x}",
            "containerID": f"containerd://{number:064x}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": AT}},
            "lastState": {},
        }
        for n in range(2)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{number:012x}",
            "resourceVersion": str(number + 10),
            "creationTimestamp": AT,
            "generation": 1,
            "labels": {f"label-{i}": f"value-{i}" for i in range(6)},
            "annotations": {f"example.com/annotation-{i}": "x" * 40 for i in range(6)},
        },
        "spec": {
            "containers": containers,
            "nodeName": "node-1",
            "restartPolicy": "Always",
            "serviceAccountName": "default",
            "tolerations": [{"key": f"k{i}", "operator": "Exists", "effect": "NoExecute"} for i in range(3)],
            "volumes": [{"name": f"v{i}", "configMap": {"name": f"config-{i}"}} for i in range(4)],
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": statuses,
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "qosClass": "Burstable",
            "startTime": AT,
        },
    }


def best_seconds(rounds: int, once: Callable[[], object]) -> float:
    """The time of the fastest of several runs."""
    times = []
    for _ in range(rounds):
        before = CLOCK.monotonic()
        once()
        times.append(CLOCK.monotonic() - before)
    return min(times)


async def best_seconds_async(rounds: int, once: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(rounds):
        before = CLOCK.monotonic()
        await once()
        times.append(CLOCK.monotonic() - before)
    return min(times)


async def merge_one(pods: tuple[Pod, ...]) -> float:
    """Microseconds to merge one changed pod into this many and take the update from the stream."""
    config = PodConfig(clock=CLOCK, recorder=Silent())
    config.merge("api", PodUpdate(PodOperation.SET, "api", pods))
    stream = config.updates()
    await anext(stream)
    pod = pods[len(pods) // 2]
    changed = [replace(pod, metadata=replace(pod.metadata, labels={"turn": turn})) for turn in ("odd", "even")]

    async def turns() -> None:
        for turn in range(500):
            config.merge("api", PodUpdate(PodOperation.UPDATE, "api", (changed[turn % 2],)))
            await anext(stream)

    return await best_seconds_async(20, turns) / 500 * 1e6


def initial_set(pods: tuple[Pod, ...]) -> float:
    def once() -> None:
        PodConfig(clock=CLOCK, recorder=Silent()).merge("api", PodUpdate(PodOperation.SET, "api", pods))

    return best_seconds(5, once)


async def status_to_patch(count: int) -> dict[str, float]:
    """Milliseconds from `set_pod_status` of this many pods until the in-process API has stored all of them."""
    best = float("inf")
    for _ in range(3):
        api, manager = MemoryApi(CLOCK), PodManager()
        for number in range(count):
            stored = api.put(POD_NAMES, document(number))
            manager.add_pod(serializer.from_document(stored, Pod))
        status = StatusManager(client=api, pods=manager, safety=NothingRuns(), clock=CLOCK)
        before = CLOCK.monotonic()
        for pod in manager.pods():
            status.set_pod_status(pod, unready(pod).status)
        await status.sync_batch(all=False)
        best = min(best, CLOCK.monotonic() - before)
        assert [call.verb for call in api.calls] == ["patch"] * count
    return {"pods": count, "total_ms": round(best * 1e3, 1), "per_pod_us": round(best / count * 1e6, 1)}


def unready(pod: Pod) -> Pod:
    """The pod with one container restarted and not ready."""
    conditions = tuple(
        replace(c, status="False", reason="ContainersNotReady") if c.type in ("Ready", "ContainersReady") else c
        for c in pod.status.conditions
    )
    first: ContainerStatus = pod.status.container_statuses[0]
    running = ContainerState(running=ContainerStateRunning(started_at="2026-01-01T00:01:00Z"))
    restarted = replace(first, ready=False, restart_count=first.restart_count + 1, state=running)
    gate = PodCondition(type="PodResizePending", status="False")
    status = replace(
        pod.status,
        conditions=(*conditions, gate),
        container_statuses=(restarted, *pod.status.container_statuses[1:]),
    )
    return replace(pod, status=status)


def bytes_per_pod(text: bytes, count: int) -> int:
    """The memory of one pod, decoded and held by a PodConfig."""
    gc.collect()
    tracemalloc.start()
    config = PodConfig(clock=CLOCK, recorder=Silent())
    config.merge("api", PodUpdate(PodOperation.SET, "api", serializer.decode(text, PodList).items))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(config.pods()) == count
    return held // count


async def measure() -> dict[str, Any]:
    # As programs do; otherwise the number of imported objects decides how often all of them are searched for garbage.
    tune_garbage_collection()
    count = 10_000
    text = serializer.encode({"items": [document(number) for number in range(count)]})
    pods = serializer.decode(text, PodList).items
    merges = {str(n): round(await merge_one(pods[:n]), 2) for n in (10, 1_000, count)}
    return {
        "machine": machine(),
        "json_bytes_per_pod": len(text) // count,
        "merge_one_changed_pod_us": merges,
        "merge_growth_10_to_10000": round(merges[str(count)] / merges["10"], 2),
        "initial_set_10000_ms": round(initial_set(pods) * 1e3, 1),
        "decode_10000_ms": round(best_seconds(3, lambda: serializer.decode(text, PodList)) * 1e3, 1),
        "status_to_patch": await status_to_patch(1_000),
        "bytes_held_per_pod": bytes_per_pod(text, count),
    }


if __name__ == "__main__":
    json.dump(asyncio.run(measure()), sys.stdout, indent=2)
    sys.stdout.write("\n")
