"""Mounts the volumes of pods, keeps their files current and unmounts them.

A pod whose volumes are not ready is tried again as soon as an object it needs changes. Other than upstream, changes of
config maps and secrets reach the files within a second rather than at the next resync of the pod. Tear-down works from
what is on disk, not from memory, so it is the same after a restart. Volumes of our plugins are unmounted and emptied;
of other plugins only empty directories are removed. The directory of all volumes is never deleted with its content.

Upstream: pkg/kubelet/volumemanager/volume_manager.go, pkg/volume/util/operationexecutor/operation_executor.go,
pkg/kubelet/kubelet_volumes.go
"""

import asyncio
import os
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.aio.threads import in_thread
from pykubelet.api.generated.core import Pod, ServiceAccountTokenProjection, Volume
from pykubelet.api.pods import PodUid
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.nodestatus.node_status import OwnNode
from pykubelet.kubelet.objectcache.pod_objects import ObjectUsers, PodObjects, UsedObject
from pykubelet.kubelet.token.token_manager import TokenManager, TokenRequestError
from pykubelet.kubelet.volumemanager import filesystem, pod_dirs
from pykubelet.kubelet.volumemanager.atomic_writer import has_version, write_payload
from pykubelet.kubelet.volumemanager.desired_state_of_world import (
    PAYLOAD_PLUGINS,
    PlannedVolume,
    Plugin,
    VolumePlan,
    plan_volumes,
)
from pykubelet.kubelet.volumemanager.errors import VolumeError, VolumesNotReady, VolumesNotRemoved, aggregate
from pykubelet.kubelet.volumemanager.filesystem import Mounter
from pykubelet.kubelet.volumemanager.host_path import check_host_path
from pykubelet.kubelet.volumemanager.mounts import ReadyVolume
from pykubelet.kubelet.volumemanager.persistent_volumes import ClaimedVolume, ClaimReader, prepare_volume
from pykubelet.kubelet.volumemanager.pod_dirs import (
    VOLUMES,
    PodDir,
    PodLocks,
    make_mount_points,
    make_volume_folder,
    pod_dir,
    pods_dir,
)
from pykubelet.kubelet.volumemanager.projected import (
    Payload,
    PayloadInputs,
    file_group,
    fingerprint,
    payload_of,
    payload_sources,
)
from pykubelet.kubelet.volumemanager.subpath import remove_sub_paths

log = get_logger(__name__)

# Upstream's value, a little more than two minutes, which users recognise in messages.
MOUNT_TIMEOUT_SECONDS = 123.0
# Changes of missing objects are noticed at once; the backoff is for causes that have no notification.
_RETRY = Backoff(first_seconds=0.5, limit_seconds=10)
_WRITERS = 4
# Files on disk are compared again only after this time: only the kubelet should change them.
_TRUST_SECONDS = 600.0
# Not those of persistent volumes: what is in them is never deleted by a pod.
_OURS = frozenset(plugin.replace("/", "~") for plugin in Plugin if plugin is not Plugin.PERSISTENT)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VolumeJob:
    """A volume to set up; `payload` has its files, `claimed` the volume behind a claim, or the error about either."""

    planned: PlannedVolume
    payload: Payload | VolumeError | None = None
    claimed: ClaimedVolume | VolumeError | None = None


def fingerprints(jobs: Iterable[VolumeJob]) -> tuple[tuple[str, bytes], ...] | None:
    """A value that is equal for jobs with equal results; None if the files of one are not available."""
    found: list[tuple[str, bytes]] = []
    for job in jobs:
        if isinstance(job.payload, VolumeError) or isinstance(job.claimed, VolumeError):
            return None
        found.append((job.planned.name, fingerprint(job.payload or {})))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeOutcome:
    """The result for a volume: whether it is ready, and a message for its user."""

    volume: ReadyVolume | None
    problem: str = ""
    is_on_disk: bool = False
    """The volume should be in memory, but the kubelet may not mount; reported once, when it is created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSetUp:
    directory: PodDir
    group: int | None
    now: datetime
    mounter: Mounter
    only_on_mismatch: bool = False
    """Whether volumes whose root has the group already are left as they are (fsGroupChangePolicy)."""

    def make_all(self, jobs: Iterable[VolumeJob]) -> dict[str, VolumeOutcome]:
        """Set up every volume that is possible; return the outcomes by name."""
        return {job.planned.name: self._outcome(job) for job in jobs}

    def _outcome(self, job: VolumeJob) -> VolumeOutcome:
        planned = job.planned
        has_payload = planned.plugin in PAYLOAD_PLUGINS
        host_path = planned.volume.host_path
        path = host_path.path if host_path else self.directory.volume(planned.plugin, planned.name)
        ready = ReadyVolume(path, has_payload)
        if isinstance(job.claimed, ClaimedVolume):
            ready = ReadyVolume(job.claimed.path, job.claimed.read_only)
        try:
            is_on_disk = self._make(path, job)
        except (OSError, VolumeError) as problem:
            # Containers continue with the previous version of the files.
            is_usable = has_payload and has_version(path)
            return VolumeOutcome(volume=ready if is_usable else None, problem=str(problem))
        return VolumeOutcome(volume=ready, is_on_disk=is_on_disk and planned.plugin is Plugin.EMPTY_DIR)

    def _make(self, path: str, job: VolumeJob) -> bool:
        planned = job.planned
        if planned.volume.host_path:
            check_host_path(planned.volume.host_path)
            return False
        if isinstance(job.payload, VolumeError):
            raise job.payload
        if job.claimed is not None:
            if isinstance(job.claimed, VolumeError):
                raise job.claimed
            mark = self.directory.volume(Plugin.PERSISTENT, job.claimed.name)
            prepare_volume(job.claimed, mark, group=self.group, only_on_mismatch=self.only_on_mismatch)
            return False
        is_on_disk = make_volume_folder(path, planned, group=self.group, mounter=self.mounter)
        if job.payload is not None:
            make_mount_points(path, planned.mount_points)
            write_payload(path, job.payload, now=self.now, group=self.group)
        return is_on_disk


def pods_on_disk(root: str) -> list[str]:
    """The UIDs of all pods that have a directory."""
    with suppress(FileNotFoundError), os.scandir(pods_dir(root)) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


def tear_down_volumes(directory: PodDir, mounter: Mounter) -> None:
    """Remove all volumes of a pod; tries each before it raises VolumesNotRemoved."""
    left: list[str] = []
    causes: list[str] = []
    try:
        remove_sub_paths(directory, mounter)
    except OSError as error:
        # First, because bind mounts of sub-paths keep volumes busy.
        raise VolumesNotRemoved(f"mounted volumes=[]: sub-paths: {error}") from error
    for plugin, name in _volumes(directory):
        try:
            _tear_down(f"{directory.volumes}/{plugin}", name, mounter, is_ours=plugin in _OURS)
        except OSError as error:
            left.append(name)
            causes.append(str(error))
    if left:
        raise VolumesNotRemoved(f"mounted volumes=[{' '.join(sorted(left))}]: {'; '.join(causes)}")


def remove_pod_folder(directory: PodDir, mounter: Mounter) -> None:
    """Remove a pod's directory with its content; raises VolumesNotRemoved or OSError if something is left."""
    tear_down_volumes(directory, mounter)
    with filesystem.opened(str(Path(directory.path).parent)) as pods:
        name = Path(directory.path).name
        with filesystem.opened(name, within=pods) as pod:
            filesystem.remove_tree(pod, VOLUMES, with_files=False)
            for other in filesystem.names_in(pod):
                filesystem.remove_tree(pod, other)
        os.rmdir(name, dir_fd=pods)


def _volumes(directory: PodDir) -> list[tuple[str, str]]:
    """Plugin and name of each volume on disk, from the directory names."""
    found: list[tuple[str, str]] = []
    with suppress(FileNotFoundError), filesystem.opened(directory.volumes) as volumes:
        for plugin in filesystem.names_in(volumes):
            with suppress(NotADirectoryError), filesystem.opened(plugin, within=volumes) as folder:
                found += [(plugin, name) for name in filesystem.names_in(folder)]
    return found


def _tear_down(parent: str, name: str, mounter: Mounter, *, is_ours: bool) -> None:
    path = f"{parent}/{name}"
    while is_ours and filesystem.is_mount_point(path):
        mounter.unmount(path)
    with filesystem.opened(parent) as above:
        filesystem.remove_tree(above, name, with_files=is_ours)


@dataclass(slots=True)
class _Record:
    """The volumes of one pod; dropped with the pod."""

    pod: Pod
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ready: dict[str, ReadyVolume] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    claimed: dict[str, ClaimedVolume] = field(default_factory=dict)
    """The volumes behind claims: once found, they are the pod's until it ends."""
    is_mounted: bool = False
    written: tuple[tuple[str, bytes], ...] | None = None
    """Fingerprints of the last successful write, which was at `written_at` on the monotonic clock."""
    written_at: float = 0.0


class VolumeManager:
    """Manages the volumes of this node's pods. Owned by one loop; disk operations run in threads, one per pod at a time."""

    def __init__(
        self,
        *,
        root: str,
        objects: PodObjects,
        tokens: TokenManager,
        claims: ClaimReader,
        node: OwnNode,
        mounter: Mounter,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._root, self._objects, self._tokens, self._node = root, objects, tokens, node
        self._claims = claims
        self._mounter, self._recorder, self._clock = mounter, recorder, clock
        self._records: dict[PodUid, _Record] = {}
        self._interest: ObjectUsers[PodUid] = ObjectUsers()
        self._locks = PodLocks()
        self._outdated: KeyedQueue[PodUid, None] = KeyedQueue()
        self._orphan_problems: dict[str, str] = {}

    def directory(self, uid: str) -> PodDir:
        return pod_dir(self._root, uid)

    def volumes(self, uid: PodUid) -> dict[str, ReadyVolume]:
        """The ready volumes of a pod by name."""
        record = self._records.get(uid)
        return dict(record.ready) if record else {}

    async def make_directories(self, pod: Pod) -> None:
        """Create the directories that every pod has; raises OSError if that fails."""
        uid = PodUid(pod.metadata.uid)
        record = self._records.get(uid)
        if record is not None and record.is_mounted and self._is_trusted(record):
            # They exist, since volumes were set up in them.
            return
        directory = self.directory(uid)
        async with self._locks.hold(uid):
            await in_thread(pod_dirs.make_pod_folders, directory.path, directory.volumes, f"{directory.path}/plugins")

    async def mount(self, pod: Pod, *, timeout_seconds: float = MOUNT_TIMEOUT_SECONDS) -> None:
        """Set up all volumes that the containers of a pod mount, and update their files.

        Called at every sync. Raises VolumesNotReady if some are not ready in time, or can never be. A ready volume stays ready
        if its files cannot be updated; an event reports that.
        """
        uid = PodUid(pod.metadata.uid)
        record = self._records.setdefault(uid, _Record(pod))
        record.pod = pod
        plan = plan_volumes(pod, self._node.allocatable())
        self._interest.set(uid, payload_sources(_with_files(plan)).objects(pod.metadata.namespace))
        if plan.refusals:
            names = [name for name in _names(plan) if name not in record.ready]
            raise VolumesNotReady(unmounted=names, refused=plan.refusals, cause=aggregate(list(plan.refusals.values())))
        retries = Retries(_RETRY)
        try:
            async with asyncio.timeout(timeout_seconds):
                while not await self._set_up(record, plan):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(retries.next_delay_seconds()):
                            await record.changed.wait()
        except TimeoutError:
            unready = [name for name in _names(plan) if name not in record.ready]
            causes = [_set_up_failed(name, record.problems.get(name, "timed out")) for name in unready]
            raise VolumesNotReady(unmounted=unready, refused=(), cause=aggregate(causes)) from None
        record.is_mounted = True
        if record.changed.is_set():
            # An object changed while its previous version was written.
            self._outdated.put(uid, None)

    def stop_updating(self, pod: Pod) -> None:
        """Stop updating the volumes of a pod: it terminates, and its config maps and secrets are often deleted with it."""
        uid = PodUid(pod.metadata.uid)
        self._interest.set(uid, ())
        if record := self._records.get(uid):
            record.is_mounted = False

    async def unmount(self, pod: Pod) -> None:
        """Remove all volumes of a pod; raises VolumesNotRemoved if some remain. May be called again."""
        uid = PodUid(pod.metadata.uid)
        self._records.pop(uid, None)
        self._interest.set(uid, ())
        self._tokens.forget(uid)
        async with self._locks.hold(uid):
            await in_thread(tear_down_volumes, self.directory(uid), self._mounter)

    async def remove_orphans(self, keep: Container[PodUid]) -> None:
        """Remove the directories of all pods that are neither desired nor running."""
        on_disk = await in_thread(pods_on_disk, self._root)
        for uid in map(PodUid, on_disk):
            if uid in keep or uid in self._records:
                continue
            async with self._locks.hold(uid):
                # The pod may have been mounted while we waited for the lock.
                if uid not in self._records:
                    await self._remove_orphan(uid)
        for gone in self._orphan_problems.keys() - set(on_disk):
            del self._orphan_problems[gone]

    async def run(self, ready: asyncio.Event) -> None:
        """Rewrite files whose source changes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_WRITERS):
                start_supervised(group, f"volumes: writer {number}", self._write_outdated)
            start_supervised(group, "volumes: objects", lambda: self._objects.follow(self._changed, ready))

    async def _remove_orphan(self, uid: PodUid) -> None:
        try:
            await in_thread(remove_pod_folder, self.directory(uid), self._mounter)
        except (OSError, VolumesNotRemoved) as error:
            # Retried at every housekeeping, but logged only once.
            if self._orphan_problems.get(uid) != str(error):
                log.warning("orphaned pod folder not removed", path=self.directory(uid).path, cause=str(error))
            self._orphan_problems[uid] = str(error)
        else:
            log.info("orphaned pod folder removed", path=self.directory(uid).path)

    def _changed(self, named: UsedObject | None) -> None:
        for uid in self._interest.users(named):
            if record := self._records.get(uid):
                record.changed.set()
                if record.is_mounted:
                    self._outdated.put(uid, None)

    async def _write_outdated(self) -> None:
        while True:
            uid, _ = await self._outdated.get()
            try:
                if (record := self._records.get(uid)) and record.is_mounted:
                    await self._set_up(record, plan_volumes(record.pod, self._node.allocatable()))
            finally:
                self._outdated.done(uid)

    async def _set_up(self, record: _Record, plan: VolumePlan) -> bool:
        """Try once; return whether all volumes are ready."""
        pod, uid = record.pod, PodUid(record.pod.metadata.uid)
        async with self._locks.hold(uid):
            # Changes from here on are not part of this attempt.
            record.changed.clear()
            jobs = await self._jobs(record, plan)
            if self._records.get(uid) is not record:
                return False
            prints, now = fingerprints(jobs), self._clock.monotonic()
            if prints is not None and prints == record.written and self._is_trusted(record):
                return True
            security = pod.spec.security_context
            work = VolumeSetUp(
                directory=self.directory(uid),
                group=file_group(pod),
                only_on_mismatch=security is not None and security.fs_group_change_policy == "OnRootMismatch",
                now=self._clock.now(),
                mounter=self._mounter,
            )
            # The state on disk is unknown until the thread has finished.
            record.written = None
            outcomes = await in_thread(work.make_all, jobs) if jobs else {}
        record.ready = {name: outcome.volume for name, outcome in outcomes.items() if outcome.volume}
        self._report(record, outcomes)
        if not record.problems:
            record.written, record.written_at = prints, now
        return len(record.ready) == len(outcomes)

    def _is_trusted(self, record: _Record) -> bool:
        """Whether the last write was successful and recent, so that the disk need not be compared."""
        return record.written is not None and self._clock.monotonic() - record.written_at < _TRUST_SECONDS

    async def _jobs(self, record: _Record, plan: VolumePlan) -> list[VolumeJob]:
        pod = record.pod
        needed = payload_sources(_with_files(plan))
        lookups = await self._objects.look_up(pod.metadata.namespace, needed)
        tokens: dict[ServiceAccountTokenProjection, str | Exception] = {}
        for projection in needed.tokens:
            try:
                tokens[projection] = await self._tokens.get(pod, projection)
            except TokenRequestError as problem:
                tokens[projection] = problem
        inputs = PayloadInputs(lookups=lookups, tokens=tokens, allocatable=self._node.allocatable())
        return [
            VolumeJob(planned=planned, claimed=await self._find_claimed(record, planned))
            if planned.plugin is Plugin.PERSISTENT
            else _job(planned, pod, inputs)
            for planned in plan.volumes
        ]

    async def _find_claimed(self, record: _Record, planned: PlannedVolume) -> ClaimedVolume | VolumeError:
        if planned.name not in record.claimed:
            try:
                found = await self._claims.find(record.pod, planned.volume, self._node.current_or_initial())
            except VolumeError as problem:
                return problem
            record.claimed[planned.name] = found
        return record.claimed[planned.name]

    def _report(self, record: _Record, outcomes: dict[str, VolumeOutcome]) -> None:
        """Emit an event for a new problem of a volume."""
        pod = reference_to(record.pod)
        for name, outcome in outcomes.items():
            if outcome.problem and outcome.problem != record.problems.get(name):
                self._recorder.event(pod, WARNING, "FailedMount", _set_up_failed(name, outcome.problem))
            if outcome.is_on_disk:
                text = f'volume "{name}" is on disk: the kubelet lacks the privilege to mount a volume of medium Memory'
                self._recorder.event(pod, WARNING, "MemoryMediumUnavailable", text)
        record.problems = {name: outcome.problem for name, outcome in outcomes.items() if outcome.problem}


def _job(planned: PlannedVolume, pod: Pod, inputs: PayloadInputs) -> VolumeJob:
    if planned.plugin not in PAYLOAD_PLUGINS:
        return VolumeJob(planned=planned)
    try:
        return VolumeJob(planned=planned, payload=payload_of(planned.volume, pod, inputs))
    except VolumeError as problem:
        return VolumeJob(planned=planned, payload=problem)


def _with_files(plan: VolumePlan) -> list[Volume]:
    return [planned.volume for planned in plan.volumes if planned.plugin in PAYLOAD_PLUGINS]


def _names(plan: VolumePlan) -> list[str]:
    return [*(planned.name for planned in plan.volumes), *plan.refusals]


def _set_up_failed(name: str, problem: str) -> str:
    return f'MountVolume.SetUp failed for volume "{name}" : {problem}'
