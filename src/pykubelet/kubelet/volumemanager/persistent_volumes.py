"""Finds the persistent volume behind a claim of a pod, and prepares it on this node.

Volumes of the types local and hostPath are used where they are; nothing is ever deleted there. The files of a local
volume get the pod's group (fsGroup) once per pod, as an empty directory in the pod's folder records.

Upstream: pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go, pkg/volume/local/local.go,
pkg/volume/volume_linux.go
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pykubelet.api.volumes import (
    foreign_claim_problem,
    is_claim_of_pod,
    pod_claims,
    source_kind,
    volume_fits_node,
)
from pykubelet.client.interface import Reader
from pykubelet.kubelet.volumemanager import filesystem
from pykubelet.kubelet.volumemanager.errors import VolumeError
from pykubelet.kubelet.volumemanager.host_path import check_host_path
from pykubelet.kubelet.volumemanager.pod_dirs import make_pod_folders

_GROUP_READS = stat.S_IRUSR | stat.S_IRGRP
_GROUP_WRITES = _GROUP_READS | stat.S_IWUSR | stat.S_IWGRP
_FOLDER = stat.S_ISGID | stat.S_IXUSR | stat.S_IXGRP


@dataclass(frozen=True, slots=True)
class ClaimedVolume:
    """The volume behind a claim, as a pod uses it."""

    volume: PersistentVolume
    read_only: bool

    @property
    def name(self) -> str:
        return self.volume.metadata.name

    @property
    def path(self) -> str:
        source = self.volume.spec.local or self.volume.spec.host_path
        return source.path if source is not None else ""


class ClaimReader:
    """Reads claims and their volumes from the API server; without a client, there are none."""

    def __init__(self, client: Reader | None) -> None:
        self._client = client

    async def find(self, pod: Pod, volume: Volume, node: Node) -> ClaimedVolume:
        """The volume behind a claim of a pod; VolumeError if the pod cannot have it, at least not now."""
        name = next(claim for each, claim in pod_claims(pod) if each.name == volume.name)
        try:
            found = await self._read(pod, volume, name)
        except VolumeError as error:
            raise VolumeError(f"error processing PVC {pod.metadata.namespace}/{name}: {error}") from error
        if found.spec.volume_mode == "Block":
            raise VolumeError(f"volume {volume.name} has volumeMode Block, but is specified in volumeMounts")
        if found.spec.local is None and found.spec.host_path is None:
            kind, title = source_kind(found), found.metadata.name
            raise VolumeError(f'persistent volume "{title}" of type {kind} is not supported by this node')
        if not volume_fits_node(found, node):
            title = found.metadata.name
            raise VolumeError(
                f'MountVolume.NodeAffinity check failed for volume "{title}" : no matching NodeSelectorTerms'
            )
        source = volume.persistent_volume_claim
        return ClaimedVolume(found, source is not None and source.read_only)

    async def _read(self, pod: Pod, volume: Volume, name: str) -> PersistentVolume:
        if self._client is None:
            raise VolumeError("failed to fetch PVC from API server: no kubeClient defined")
        try:
            claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace=pod.metadata.namespace)
        except ApiError as error:
            raise VolumeError(f"failed to fetch PVC from API server: {error}") from error
        if volume.ephemeral is not None and not is_claim_of_pod(claim, pod):
            raise VolumeError(foreign_claim_problem(claim, pod))
        if claim.metadata.deletion_timestamp is not None:
            raise VolumeError("PVC is being deleted")
        if claim.status.phase != "Bound" or not claim.spec.volume_name:
            raise VolumeError("PVC is not bound")
        try:
            found = await self._client.get(PERSISTENT_VOLUMES, claim.spec.volume_name)
        except ApiError as error:
            raise VolumeError(f"failed to fetch PV {claim.spec.volume_name} from API server: {error}") from error
        _check_reference(found, claim)
        return found


def _check_reference(volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
    reference, start = volume.spec.claim_ref, f"found PV object {volume.metadata.name} but"
    if reference is None:
        raise VolumeError(f"{start} it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim")
    if reference.uid != claim.metadata.uid:
        uids = f"{reference.uid} does not point to claim.UID {claim.metadata.uid}"
        raise VolumeError(f"{start} its pv.Spec.ClaimRef.UID {uids}")


def prepare_volume(claimed: ClaimedVolume, mark: str, *, group: int | None, only_on_mismatch: bool) -> None:
    """Check a volume and, once per pod, give the files of a local one the pod's group; `mark` records that.

    Raises VolumeError or OSError. With `only_on_mismatch`, nothing is changed if the volume's root is right already.
    """
    if claimed.volume.spec.host_path is not None:
        check_host_path(claimed.volume.spec.host_path)
        return
    if not Path(claimed.path).is_dir():
        raise VolumeError(f'path "{claimed.path}" does not exist')
    if Path(mark).exists():
        return
    if group is not None and not claimed.read_only:
        # The path itself is the administrator's and may be a link; nothing below it is followed.
        with filesystem.opened(claimed.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as root:
            if not (only_on_mismatch and _is_right(root, group)):
                change_group(root, group)
    make_pod_folders(mark)


def change_group(root: int, group: int) -> None:
    """Give a group an open directory and everything below it, without following links or crossing mounts."""
    mount, folders = filesystem.mount_id(root), [""]
    while folders:
        path = folders.pop()
        with suppress(FileNotFoundError, NotADirectoryError), filesystem.opened_below(root, path) as folder:
            if filesystem.mount_id(folder) != mount:
                continue
            for name in filesystem.names_in(folder):
                with suppress(FileNotFoundError):
                    if _change_entry(folder, name, group):
                        folders.append(f"{path}/{name}" if path else name)
            # The root last: it shows that everything below has its group.
            if path:
                _change(folder, group, _GROUP_WRITES | _FOLDER)
    _change(root, group, _GROUP_WRITES | _FOLDER)


def _change_entry(folder: int, name: str, group: int) -> bool:
    """Change one entry of a directory; returns True for a directory, which is changed later."""
    with filesystem.opened(name, filesystem.HANDLE, within=folder) as entry:
        mode = os.fstat(entry).st_mode
        if stat.S_ISDIR(mode):
            return True
        if stat.S_ISLNK(mode):
            with suppress(PermissionError):
                os.chown(name, -1, group, dir_fd=folder, follow_symlinks=False)
        else:
            _change(entry, group, _GROUP_WRITES)
    return False


def _change(handle: int, group: int, bits: int) -> None:
    """Change group and mode where permitted: an unprivileged kubelet runs containers as its own user anyway."""
    path = f"/proc/self/fd/{handle}"
    with suppress(PermissionError):
        os.chown(path, -1, group)
        # After the owner, because that clears the bits of set-id programs.
        Path(path).chmod(stat.S_IMODE(os.fstat(handle).st_mode) | bits)


def _is_right(root: int, group: int) -> bool:
    found = os.fstat(root)
    wanted = _GROUP_WRITES | _FOLDER
    return found.st_gid == group and found.st_mode & wanted == wanted
