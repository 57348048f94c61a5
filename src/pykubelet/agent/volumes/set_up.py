"""Makes volumes ready on disk, each by its kind. Blocks, so it runs in a thread.

Upstream: the SetUpAt functions of pkg/volume/{emptydir,hostpath,configmap,secret,downwardapi,projected}
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pykubelet.agent.volumes.directories import make_mount_points, make_volume_folder
from pykubelet.agent.volumes.host_path import check_host_path
from pykubelet.agent.volumes.mount_plan import ReadyVolume
from pykubelet.agent.volumes.mounting import Mounter
from pykubelet.agent.volumes.payloads import Payload, fingerprint
from pykubelet.agent.volumes.plan import PAYLOAD_PLUGINS, PlannedVolume, Plugin
from pykubelet.agent.volumes.pod_dirs import PodDir
from pykubelet.agent.volumes.problems import VolumeProblem
from pykubelet.agent.volumes.writer import has_version, write_payload


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VolumeJob:
    """A volume to make ready; `payload` are its files, or why there are none, if it is of a kind that has some."""

    planned: PlannedVolume
    payload: Payload | VolumeProblem | None = None


def fingerprints(jobs: Iterable[VolumeJob]) -> tuple[tuple[str, bytes], ...] | None:
    """Tells whether jobs would make the same as others did; None if one of them has no files to make."""
    found: list[tuple[str, bytes]] = []
    for job in jobs:
        if isinstance(job.payload, VolumeProblem):
            return None
        found.append((job.planned.name, fingerprint(job.payload or {})))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeOutcome:
    """What became of a volume: there or not, and what its user should know."""

    volume: ReadyVolume | None
    problem: str = ""
    is_on_disk_instead: bool = False
    """It should be in memory, but we have no right to mount; said once, when it is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """How volumes of one pod are made at one time."""

    directory: PodDir
    group: int | None
    now: datetime
    mounter: Mounter

    def make_all(self, jobs: Iterable[VolumeJob]) -> dict[str, VolumeOutcome]:
        """Make volumes ready, every one that can be; the outcome by name."""
        return {job.planned.name: self._outcome(job) for job in jobs}

    def _outcome(self, job: VolumeJob) -> VolumeOutcome:
        ready = ready_volume(self.directory, job.planned)
        try:
            is_on_disk_instead = self._make(ready.path, job)
        except (OSError, VolumeProblem) as problem:
            # An older version of its files is better than none: containers go on with it.
            is_usable = job.planned.plugin in PAYLOAD_PLUGINS and has_version(ready.path)
            return VolumeOutcome(volume=ready if is_usable else None, problem=str(problem))
        is_empty_dir = job.planned.plugin is Plugin.EMPTY_DIR
        return VolumeOutcome(volume=ready, is_on_disk_instead=is_on_disk_instead and is_empty_dir)

    def _make(self, path: str, job: VolumeJob) -> bool:
        planned = job.planned
        if planned.volume.host_path:
            check_host_path(planned.volume.host_path)
            return False
        if isinstance(job.payload, VolumeProblem):
            raise job.payload
        is_on_disk_instead = make_volume_folder(path, planned, group=self.group, mounter=self.mounter)
        if job.payload is not None:
            make_mount_points(path, planned.mount_points)
            write_payload(path, job.payload, now=self.now, group=self.group)
        return is_on_disk_instead


def ready_volume(directory: PodDir, planned: PlannedVolume) -> ReadyVolume:
    """Where a volume is once it is ready."""
    if planned.volume.host_path:
        return ReadyVolume(planned.volume.host_path.path)
    return ReadyVolume(directory.volume(planned.plugin, planned.name), planned.plugin in PAYLOAD_PLUGINS)
