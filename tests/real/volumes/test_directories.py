"""Volume folders on a real disk: created, mounted where allowed, and removed."""

import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.generated.core import HostPathVolumeSource
from pykubelet.kubelet.volumemanager import filesystem
from pykubelet.kubelet.volumemanager.desired_state_of_world import plan_volumes
from pykubelet.kubelet.volumemanager.errors import VolumeError, VolumesNotRemoved
from pykubelet.kubelet.volumemanager.filesystem import SystemMounter
from pykubelet.kubelet.volumemanager.host_path import check_host_path
from pykubelet.kubelet.volumemanager.pod_dirs import PodDir, pod_dir
from pykubelet.kubelet.volumemanager.projected import FileContent, Payload
from pykubelet.kubelet.volumemanager.volume_manager import (
    VolumeJob,
    VolumeOutcome,
    VolumeSetUp,
    pods_on_disk,
    remove_pod_folder,
    tear_down_volumes,
)
from volume_pods import UID, pod_with, volume_paths

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MOUNTER = SystemMounter()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make(
    folder: Path, source: dict[str, Any], payload: Payload | VolumeError | None = None, *, group: int | None = None
) -> VolumeOutcome:
    """Set up the pod's only volume."""
    (planned,) = plan_volumes(pod_with({"name": "v", **source}), {"memory": "1Gi"}).volumes
    work = VolumeSetUp(directory=pod_dir(str(folder), UID), group=group, now=NOW, mounter=MOUNTER)
    return work.make_all([VolumeJob(planned=planned, payload=payload)])["v"]


def made(outcome: VolumeOutcome) -> Path:
    assert outcome.volume is not None, outcome.problem
    return Path(outcome.volume.path)


@pytest.fixture
def directory(folder: Path) -> PodDir:
    return pod_dir(str(folder), UID)


def test_empty_dir_is_for_everybody_whatever_the_umask(folder: Path) -> None:
    """Others cannot enter its parent folder; with an fsGroup it is setgid."""
    before = os.umask(0o077)
    try:
        path = made(make(folder, {"emptyDir": {}}))
    finally:
        os.umask(before)
    assert path == folder / f"pods/{UID}/volumes/kubernetes.io~empty-dir/v"
    assert mode(path) == 0o777
    assert mode(path.parent) & 0o007 == 0
    path.rmdir()
    grouped = made(make(folder, {"emptyDir": {}}, group=os.getegid()))
    assert mode(grouped) == 0o2777
    assert grouped.stat().st_gid == os.getegid()


def test_empty_dir_is_left_as_its_containers_made_it(folder: Path) -> None:
    """Later setups keep its content and mode."""
    path = made(make(folder, {"emptyDir": {}}))
    (path / "file").write_text("x")
    path.chmod(0o700)
    assert made(make(folder, {"emptyDir": {}})) == path
    assert (path / "file").read_text() == "x"
    assert mode(path) == 0o700


def test_empty_dir_of_a_killed_attempt_is_made_anew(folder: Path) -> None:
    """An unfinished folder has a temporary name and is never mounted."""
    unfinished = folder / f"pods/{UID}/volumes/kubernetes.io~empty-dir/.v"
    unfinished.mkdir(parents=True)
    path = made(make(folder, {"emptyDir": {}}))
    assert mode(path) == 0o777
    assert not unfinished.exists()


def test_empty_dir_in_memory_is_mounted_or_said_to_be_on_disk(folder: Path, may_mount: bool, directory: PodDir) -> None:
    """With the right to mount it has its size limit; otherwise it is a folder, which is reported once."""
    source = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    outcome = make(folder, source)
    path = made(outcome)
    try:
        assert outcome.is_on_disk is not may_mount
        assert filesystem.is_mount_point(str(path)) is may_mount
        assert mode(path) == 0o777
        (path / "file").write_text("kept")
        assert not make(folder, source).is_on_disk
        assert (path / "file").read_text() == "kept"
        facts = os.statvfs(path)
        assert not may_mount or facts.f_blocks * facts.f_frsize == 2**20
    finally:
        tear_down_volumes(directory, MOUNTER)
    assert volume_paths(directory) == []


def test_files_are_written_and_nested_mount_points_made(folder: Path, directory: PodDir) -> None:
    """The volume gets folders for mounts of other volumes inside it."""
    mounts = [{"name": "v", "mountPath": "/s"}, {"name": "w", "mountPath": "/s/inner/deep"}]
    pod = pod_with({"name": "v", "secret": {"secretName": "s"}}, containers=[{"name": "main", "volumeMounts": mounts}])
    (planned,) = plan_volumes(pod, {}).volumes
    work = VolumeSetUp(directory=directory, group=None, now=NOW, mounter=MOUNTER)
    job = VolumeJob(planned=planned, payload={"key": FileContent(b"x", 0o400)})
    try:
        path = made(work.make_all([job])["v"])
        assert (path / "key").read_bytes() == b"x"
        assert (path / "inner/deep").is_dir()
        assert made(work.make_all([job])["v"]) == path
    finally:
        tear_down_volumes(directory, MOUNTER)
    assert volume_paths(directory) == []


def test_volume_keeps_its_files_when_their_source_is_gone(folder: Path, directory: PodDir) -> None:
    """A volume that was never set up is missing instead."""
    source = {"configMap": {"name": "c"}}
    outcome = make(folder, source, VolumeError("gone"))
    assert (outcome.volume, outcome.problem) == (None, "gone")
    make(folder, source, {"a": FileContent(b"1")})
    outcome = make(folder, source, VolumeError("gone"))
    assert (made(outcome) / "a").read_bytes() == b"1"
    assert outcome.problem == "gone"
    assert volume_paths(directory) == [str(made(outcome))]


def test_tear_down_keeps_volumes_of_unknown_plugins(folder: Path, directory: PodDir) -> None:
    """Their files and the pod's folder stay; our own volumes are removed."""
    made(make(folder, {"emptyDir": {}}))
    foreign = Path(directory.volumes) / "kubernetes.io~csi/disk"
    foreign.mkdir(parents=True)
    (foreign / "data").write_text("precious")
    for _ in range(2):
        with pytest.raises(VolumesNotRemoved, match=r"^mounted volumes=\[disk\]: .*a file is left there"):
            remove_pod_folder(directory, MOUNTER)
    assert volume_paths(directory) == [str(foreign)]
    assert (foreign / "data").read_text() == "precious"


def test_pod_folder_goes_with_all_in_it(folder: Path, directory: PodDir) -> None:
    """Volumes, empty plugin folders and container files are removed; symbolic links are not followed."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "file").touch()
    path = made(make(folder, {"emptyDir": {}}))
    (path / "link").symlink_to(outside)
    (Path(directory.volumes) / "kubernetes.io~csi/disk/mount").mkdir(parents=True)
    (Path(directory.path) / "containers/main").mkdir(parents=True)
    (Path(directory.path) / "containers/main/0").touch()
    (Path(directory.path) / "etc-hosts").touch()
    (Path(directory.path) / "link").symlink_to(outside)
    assert pods_on_disk(str(folder)) == [UID]
    remove_pod_folder(directory, MOUNTER)
    assert pods_on_disk(str(folder)) == []
    assert pods_on_disk(str(folder / "nowhere")) == []
    assert (outside / "file").exists()


def test_file_among_volumes_is_never_deleted(folder: Path, directory: PodDir) -> None:
    """Tear-down removes only volumes that it knows from the volumes folder."""
    stray = Path(directory.volumes) / "stray"
    stray.parent.mkdir(parents=True)
    stray.write_text("x")
    with pytest.raises(OSError, match="a file is left there"):
        remove_pod_folder(directory, MOUNTER)
    assert stray.read_text() == "x"


def test_mount_inside_a_volume_is_not_emptied(folder: Path, may_mount: bool, directory: PodDir) -> None:
    """A foreign bind mount keeps its files, and its volume is reported until it is unmounted."""
    (folder / "machine").mkdir()
    (folder / "machine/file").write_text("precious")
    inner = made(make(folder, {"emptyDir": {}})) / "inner"
    inner.mkdir()
    if may_mount:
        MOUNTER.bind(str(folder / "machine"), str(inner))
        with pytest.raises(VolumesNotRemoved, match=r"^mounted volumes=\[v\]: .*something is mounted there"):
            tear_down_volumes(directory, MOUNTER)
        MOUNTER.unmount(str(inner))
    tear_down_volumes(directory, MOUNTER)
    assert (folder / "machine/file").read_text() == "precious"
    assert volume_paths(directory) == []


def test_volumes_stay_while_parts_of_them_are_bound(folder: Path, directory: PodDir) -> None:
    """A subPath that cannot be removed may still show files of the volume."""
    path = made(make(folder, {"emptyDir": {}}))
    stuck = Path(directory.sub_path("v", "main", 0))
    (stuck / "file").mkdir(parents=True)
    with pytest.raises(VolumesNotRemoved, match=r"^mounted volumes=\[\]: sub-paths: "):
        tear_down_volumes(directory, MOUNTER)
    assert path.is_dir()
    (stuck / "file").rmdir()
    tear_down_volumes(directory, MOUNTER)
    assert not path.exists()


RIGHT: list[tuple[str, str]] = [
    ("dir", ""), ("dir", "Directory"), ("dir", "DirectoryOrCreate"), ("new/er/dir", "DirectoryOrCreate"),
    ("file", "File"), ("file", "FileOrCreate"), ("newfile", "FileOrCreate"), ("socket", "Socket"),
    ("link", "Directory"), ("nothing", ""),
]  # fmt: skip
WRONG: list[tuple[str, str, str]] = [
    ("file", "Directory", "hostPath type check failed: {} is not a directory"),
    ("nothing", "Directory", "hostPath type check failed: {} is not a directory"),
    ("file", "DirectoryOrCreate", "hostPath type check failed: {} is not a directory"),
    ("dir", "File", "hostPath type check failed: {} is not a file"),
    ("dir", "FileOrCreate", "hostPath type check failed: {} is not a file"),
    ("file", "Socket", "hostPath type check failed: {} is not a socket file"),
    ("file", "CharDevice", "hostPath type check failed: {} is not a character device"),
    ("file", "BlockDevice", "hostPath type check failed: {} is not a block device"),
    ("file", "Tape", "Tape is an invalid volume type"),
    ("dir/../file", "File", "invalid HostPath `{}`: must not contain '..'"),
    ("a\0b", "File", "invalid HostPath: must not contain a NUL byte"),
]


@pytest.fixture
def host(folder: Path) -> Path:
    (folder / "dir").mkdir()
    (folder / "file").touch()
    (folder / "link").symlink_to("dir")
    os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)
    return folder


@pytest.mark.parametrize(("path", "expected"), RIGHT)
def test_host_path_is_what_the_pod_expects(host: Path, path: str, expected: str) -> None:
    """The `OrCreate` types create a missing path."""
    check_host_path(HostPathVolumeSource(path=str(host / path), type=expected))
    assert (host / path).exists() is (path != "nothing")


@pytest.mark.parametrize(("path", "expected", "complaint"), WRONG)
def test_host_path_is_refused_when_it_is_something_else(host: Path, path: str, expected: str, complaint: str) -> None:
    """The messages are upstream's."""
    with pytest.raises(VolumeError) as caught:
        check_host_path(HostPathVolumeSource(path=f"{host}/{path}", type=expected))
    assert str(caught.value) == complaint.format(f"{host}/{path}")


def test_host_path_that_cannot_be_created_is_a_problem_of_the_volume(host: Path) -> None:
    """It is reported as the volume's problem, not raised."""
    source = {"hostPath": {"path": f"{host}/file/below", "type": "DirectoryOrCreate"}}
    outcome = make(host, source)
    assert outcome.volume is None
    assert "Not a directory" in outcome.problem
    assert made(make(host, {"hostPath": {"path": f"{host}/dir", "type": "Directory"}})) == host / "dir"
