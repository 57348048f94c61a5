"""Measuring what pods use: from the runtime and on disk."""

import asyncio
import os
from pathlib import Path

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.eviction.pod_usage import DiskUsage, PodPaths, PodUsageReader, size_of
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, SimRuntime
from pykubelet.testing.build import pod
from pykubelet.testing.virtual_time import VirtualClock
from runtime_rig import Rig


def test_size_counts_blocks_of_everything_below_once(tmp_path: Path) -> None:
    """Folders and links are counted; a second hard link is not, and symbolic links are not followed."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/data").write_bytes(b"x" * 100_000)
    os.link(tmp_path / "a/data", tmp_path / "a/b/again")
    (tmp_path / "a/link").symlink_to(tmp_path)
    found = size_of(str(tmp_path / "a"))
    paths = [tmp_path / "a", tmp_path / "a/b", tmp_path / "a/data", tmp_path / "a/link"]
    assert found == DiskUsage(sum(path.lstat().st_blocks * 512 for path in paths), 4)
    assert size_of(str(tmp_path / "a/data")).bytes >= 100_000


def test_missing_path_uses_nothing(tmp_path: Path) -> None:
    """The pod may be starting, or its folder may have been removed."""
    assert size_of(str(tmp_path / "gone")) == DiskUsage()


async def test_pods_are_measured_by_name_of_their_containers(tmp_path: Path) -> None:
    """Only the given pods are measured; the disk is read only on request."""
    script = Behaviour(memory_bytes=5, layer_bytes=6, processes=2)
    sim = SimRuntime(clock=VirtualClock(), scripts={"main": script})
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume/file").write_bytes(b"x" * 10_000)
    paths = PodPaths(logs={"main": str(tmp_path / "volume/file")}, volumes={"data": str(tmp_path / "volume")})
    async with Rig(tmp_path / "logs", sim=sim).running() as rig:
        web, other = pod("web"), pod("other")
        for one in (web, other):
            await rig.sync(one)
        meter = PodUsageReader(runtime=rig.sim, usages=rig.sim, paths=lambda _: paths)
        quick = (await meter.measure([web], with_disk=False))[PodUid(web.metadata.uid)]
        assert (quick.memory_bytes, quick.processes, quick.volumes) == (5, 2, {})
        assert quick.containers["main"].layer == DiskUsage(6)
        whole = await meter.measure([web], with_disk=True)
        assert list(whole) == [web.metadata.uid]
        found = whole[PodUid(web.metadata.uid)]
        assert found.volumes["data"].bytes >= 10_000
        assert found.containers["main"].logs == size_of(str(tmp_path / "volume/file"))


async def test_container_without_runtime_stats_still_has_its_logs(tmp_path: Path) -> None:
    """All other usage is unknown."""
    async with Rig(tmp_path).running() as rig:
        web = pod()
        await rig.sync(web)
        meter = PodUsageReader(runtime=rig.sim, usages=None, paths=lambda _: PodPaths(logs={"main": str(tmp_path)}))
        found = (await meter.measure([web], with_disk=True))[PodUid(web.metadata.uid)]
        main = found.containers["main"]
        assert (main.memory_bytes, main.layer, main.processes, found.memory_bytes) == (None, None, None, 0)
        assert main.logs == size_of(str(tmp_path))


@pytest.mark.parametrize("has_usages", [True, False])
async def test_pod_of_which_nothing_runs_is_not_measured(tmp_path: Path, *, has_usages: bool) -> None:
    """Its container has exited; runtimes with and without usage statistics."""
    sim = SimRuntime(clock=VirtualClock(), default=Behaviour(runs=(ContainerRun(seconds=0, exit_code=1),)))
    async with Rig(tmp_path, sim=sim).running() as rig:
        web = pod(restart_policy="Never")
        await rig.sync(web)
        await asyncio.sleep(1)
        meter = PodUsageReader(runtime=rig.sim, usages=rig.sim if has_usages else None)
        assert await meter.measure([web], with_disk=True) == {}
