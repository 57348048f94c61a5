"""Pods leave nothing on the machine, whenever they are deleted; what others have left is swept."""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cgroup_files import CGROUPS, IS_V2
from containerd_lab import ContainerdLab, running_containerd
from cri_lab import CriLab, opened
from leak_lab import LeakLab, open_leak_lab, planned_pods
from own_network import nft_tables, own_network, routes
from pykubelet.kubelet.kuberuntime import container_gc

# Half of the 60 pods on each runtime; `scripts/soak leaks` does a thousand on each.
PODS = 30
# Half a second is usual; the machine may be busy.
PATIENCE_SECONDS = 60.0
pytestmark = pytest.mark.timeout(200)


@pytest.fixture(autouse=True)
def _frequent_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead sandboxes and logs are collected every second instead of every minute."""
    monkeypatch.setattr(container_gc, "CONTAINER_GC_PERIOD_SECONDS", 1.0)


@pytest.fixture(scope="module")
def containerd() -> Iterator[ContainerdLab]:
    """A containerd without pods of other tests."""
    with running_containerd() as lab:
        yield lab


async def leave_nothing(lab: LeakLab) -> None:
    seed = secrets.randbelow(2**32)
    print(f"seed {seed}")  # noqa: T201  shown if the test fails
    await lab.churn(planned_pods(PODS, seed=seed), at_once=10)
    assert await lab.until_clean(PATIENCE_SECONDS) == [], f"seed {seed}"


async def test_deleted_pods_leave_nothing_on_containerd(containerd: ContainerdLab, tmp_path: Path) -> None:
    """No cgroup, sandbox, shim, mount, folder, address or process, whenever they were deleted."""
    async with open_leak_lab(tmp_path, containerd) as lab:
        await leave_nothing(lab)


async def test_deleted_pods_leave_nothing_as_processes(tmp_path: Path) -> None:
    """No process, shim, cgroup, mount or folder, whenever they were deleted."""
    async with open_leak_lab(tmp_path) as lab:
        await lab.run_pod("seen")
        # A machine may permit no cgroups.
        assert lab.kinds() | {"cgroup"} == {"folder", "mount", "cgroup", "process"}
        await lab.delete("seen")
        await leave_nothing(lab)


async def test_deleted_pods_with_networks_of_their_own_leave_nothing(tmp_path: Path) -> None:
    """No link, address, route or network namespace either, whenever they were deleted."""
    with own_network():
        async with open_leak_lab(tmp_path, pod_network="own") as lab:
            await lab.run_pod("seen")
            assert lab.kinds() | {"cgroup"} == {"folder", "mount", "cgroup", "process", "link"}
            await lab.delete("seen")
            await leave_nothing(lab)
            assert routes() == []
        assert nft_tables() == []


def leftover_cgroup(containerd: ContainerdLab, uid: str, *below: str) -> list[Path]:
    """Create the cgroup of a pod that no kubelet knows, in every hierarchy of the lab's tree."""
    name = containerd.cgroup_parent.removeprefix("/")
    hierarchies = [CGROUPS] if IS_V2 else [CGROUPS / name for name in ("cpu", "memory", "pids")]
    made = [hierarchy / name / "kubepods/besteffort" / f"pod{uid}" for hierarchy in hierarchies]
    for cgroup in made:
        cgroup.joinpath(*below).mkdir(parents=True)
    return made


@asynccontextmanager
async def process_in(cgroup: Path) -> AsyncIterator[None]:
    """A process in a cgroup, which must have been killed at the end."""
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    (cgroup / "cgroup.procs").write_text(str(process.pid))
    try:
        yield
        assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == -signal.SIGKILL
    finally:
        if process.returncode is None:
            process.kill()


async def test_what_others_have_left_is_swept_at_start_and_later(containerd: ContainerdLab, tmp_path: Path) -> None:
    """Empty cgroups, one with a process in it, and a sandbox without a pod. A running pod keeps its cgroup."""
    async with opened(containerd) as cri:
        other = CriLab(cri, tmp_path)
        await other.sandbox(other.pod("sleep", "1000"))
    swept = leftover_cgroup(containerd, "empty") + leftover_cgroup(containerd, "nested", "container", "child")
    used = leftover_cgroup(containerd, "used", "container")
    async with process_in(used[0] / "container"), open_leak_lab(tmp_path, containerd) as lab:
        uid = await lab.run_pod("stays")
        kept = [f"cgroup pod{uid}"]
        assert lab.kinds() == {"folder", "mount", "cgroup", "address", "process", "shim"}
        await lab.until_only_cgroups(kept, PATIENCE_SECONDS)
        assert not any(cgroup.exists() for cgroup in swept + used)
        later = leftover_cgroup(containerd, "later", "container")
        async with process_in(later[0] / "container"):
            # A change of pods is followed by housekeeping.
            await lab.churn(planned_pods(1, seed=0), at_once=1)
            await lab.until_only_cgroups(kept, PATIENCE_SECONDS)
        assert await lab.restarts("stays") == 0
        await lab.delete("stays")
        assert await lab.until_clean(PATIENCE_SECONDS) == []
