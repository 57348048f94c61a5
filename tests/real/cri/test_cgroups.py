"""The limits that the kernel enforces on containers, read from their cgroups."""

import asyncio
from contextlib import suppress

import pytest

from cgroup_files import IS_V2, places, value
from containerd_lab import ContainerdLab
from cri_lab import CriLab
from pykubelet.api.generated.core import ResourceRequirements
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.connect import OpenCri
from pykubelet.runtimes.protocol import RuntimeFailure, SandboxRequest

NOTHING = ResourceRequirements()
SOME = ResourceRequirements(requests={"cpu": "250m", "memory": "16Mi"}, limits={"cpu": "500m", "memory": "64Mi"})
ALL = ResourceRequirements(requests={"cpu": "1", "memory": "64Mi"}, limits={"cpu": "1", "memory": "64Mi"})


@pytest.mark.parametrize(
    ("resources", "above", "memory", "quota", "shares"),
    [
        (NOTHING, "kubepods/besteffort", None, "-1", "2"),
        (SOME, "kubepods/burstable", 64 * 2**20, "50000", "256"),
        (ALL, "kubepods", 64 * 2**20, "100000", "1024"),
    ],
    ids=["best effort", "burstable", "guaranteed"],
)
async def test_container_is_limited_in_the_cgroup_of_its_class(
    containerd: ContainerdLab,
    lab: CriLab,
    resources: ResourceRequirements,
    above: str,
    memory: int | None,
    quota: str,
    shares: str,
) -> None:
    """The cgroup path has the QoS class, where eviction and metrics expect it."""
    pod = lab.pod("sleep", "1000", resources=resources)
    container_id = await lab.run(pod)
    path = f"{above}/pod{pod.metadata.uid}/{container_id}"
    limit = value(containerd, path, "memory", "memory.limit_in_bytes", "memory.max")
    assert limit == str(memory) if memory is not None else limit not in {"0", str(64 * 2**20)}
    if not IS_V2:
        assert value(containerd, path, "cpu", "cpu.cfs_quota_us", "") == quota
        assert value(containerd, path, "cpu", "cpu.shares", "") == shares


async def test_pod_as_a_whole_is_limited_for_as_long_as_it_is_there(
    containerd: ContainerdLab, cri: OpenCri, lab: CriLab
) -> None:
    """Stopping the sandbox removes the pod's cgroup from every hierarchy."""
    pod = lab.pod("sleep", "1000", resources=SOME)
    sandbox_id = await lab.sandbox(pod)
    path = f"kubepods/burstable/pod{pod.metadata.uid}"
    assert value(containerd, path, "memory", "memory.limit_in_bytes", "memory.max") == str(64 * 2**20)
    if not IS_V2:
        assert value(containerd, path, "cpu", "cpu.cfs_quota_us", "") == "50000"
        assert value(containerd, path, "cpu", "cpu.shares", "") == "256"
    await lab.add(pod, sandbox_id)
    assert places(containerd, path)
    await cri.runtime.stop(sandbox_id, 0)
    assert places(containerd, path) == []


async def test_sandbox_that_cannot_be_made_leaves_no_cgroup(
    containerd: ContainerdLab, cri: OpenCri, lab: CriLab
) -> None:
    """The pod may never get another one."""
    pod = lab.pod("sleep", "1000")
    request = SandboxRequest(pod=pod, attempt=0, hostname="x", log_directory=str(lab.folder), handler="nonesuch")
    with pytest.raises(RuntimeFailure):
        await cri.runtime.create_sandbox(request)
    assert places(containerd, f"kubepods/besteffort/pod{pod.metadata.uid}") == []


@pytest.mark.parametrize("seconds", [0.05, 0.1, 0.2])
async def test_sandbox_of_a_cancelled_caller_is_complete(
    containerd: ContainerdLab, cri: OpenCri, lab: CriLab, seconds: float
) -> None:
    """The pod is deleted meanwhile: its sandbox is there to be stopped, and no cgroup is left."""
    pod = lab.pod("sleep", "1000")
    making = asyncio.create_task(lab.sandbox(pod))
    await asyncio.sleep(seconds)
    making.cancel()
    with suppress(asyncio.CancelledError):
        await making
    found = await cri.runtime.inspect(PodUid(pod.metadata.uid))
    # On a very slow machine the call may not have been sent yet.
    for sandbox in found.sandboxes if found is not None else ():
        assert sandbox.is_ready
        await cri.runtime.stop(sandbox.id, 0)
    assert places(containerd, f"kubepods/besteffort/pod{pod.metadata.uid}") == []


async def test_container_over_its_memory_limit_ends_as_oom_killed(cri: OpenCri, lab: CriLab) -> None:
    resources = ResourceRequirements(limits={"memory": "16Mi"}, requests={"memory": "16Mi"})
    pod = lab.pod("sh", "-c", "x=$(yes | head -c 200000000); echo $x", resources=resources)
    await lab.run(pod)
    ended = await lab.until_exited(pod)
    assert (ended.reason, ended.exit_code) == ("OOMKilled", 137)


async def test_usage_of_running_containers_is_measured(cri: OpenCri, lab: CriLab) -> None:
    """Containers that have exited are left out."""
    busy = await lab.run_shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exec sleep 1000")
    ended = lab.pod("true")
    ended_id = await lab.run(ended)
    await lab.until_exited(ended)
    usages = await cri.usages.usages()
    assert ended_id not in usages
    usage = usages[busy]
    assert usage.cpu_nanoseconds is not None
    assert usage.cpu_nanoseconds > 1_000_000
    assert usage.working_set_bytes is not None
    assert 0 < usage.working_set_bytes < 100 * 2**20
