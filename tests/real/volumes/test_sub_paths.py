"""SubPath mounts never lead out of their volume."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.kubelet.volumemanager import subpath
from pykubelet.kubelet.volumemanager.errors import ContainerConfigError
from pykubelet.kubelet.volumemanager.filesystem import SystemMounter
from pykubelet.kubelet.volumemanager.mounts import PlannedMount
from pykubelet.kubelet.volumemanager.pod_dirs import PodDir

MOUNTER = SystemMounter()
NO_RIGHT = r'^failed to prepare subPath for volumeMount "v" of container "main": this node has no right to mount$'


@pytest.fixture
def volume(folder: Path) -> Path:
    path = folder / "volume"
    path.mkdir()
    path.chmod(0o2770)
    return path


@pytest.fixture
def directory(folder: Path) -> Iterator[PodDir]:
    (folder / "pod").mkdir()
    pod = PodDir(str(folder / "pod"))
    yield pod
    subpath.remove_sub_paths(pod, MOUNTER)
    assert not Path(pod.sub_paths).exists()


def mount_of(volume: Path, sub_path: str, index: int = 0) -> PlannedMount:
    return PlannedMount(
        volume="v",
        index=index,
        volume_path=str(volume),
        sub_path=sub_path,
        container_path="/m",
        read_only=False,
        propagation="None",
    )


def bound(directory: PodDir, volume: Path, sub_path: str, index: int = 0) -> Path:
    return Path(subpath.bind_sub_path(directory, mount_of(volume, sub_path, index), "main", MOUNTER))


def test_part_of_a_volume_is_bound_to_a_place_of_our_own(volume: Path, directory: PodDir, may_mount: bool) -> None:
    """It may be a folder or a file; without the right to mount it is refused after the folder is created."""
    (volume / "file").write_text("content")
    if not may_mount:
        for part in ("a/b", "file"):
            with pytest.raises(ContainerConfigError, match=NO_RIGHT):
                bound(directory, volume, part)
        assert stat.S_IMODE((volume / "a/b").stat().st_mode) == 0o2770
        return
    target = bound(directory, volume, "a/b")
    assert str(target) == f"{directory.path}/volume-subpaths/v/main/0"
    (target / "inside").write_text("x")
    assert (volume / "a/b/inside").read_text() == "x"
    assert stat.S_IMODE((volume / "a").stat().st_mode) == 0o2770
    file = bound(directory, volume, "file", 1)
    assert file.read_text() == "content"
    assert bound(directory, volume, "a/b") == target


def test_part_that_was_replaced_is_bound_anew(volume: Path, directory: PodDir, may_mount: bool) -> None:
    """The part may be a new file or have become a folder, as after an update between two runs."""
    (volume / "part").write_text("old")
    if not may_mount:
        with pytest.raises(ContainerConfigError, match=NO_RIGHT):
            bound(directory, volume, "part")
        return
    assert bound(directory, volume, "part").read_text() == "old"
    (volume / "new").write_text("new")
    (volume / "new").rename(volume / "part")
    assert bound(directory, volume, "part").read_text() == "new"
    (volume / "part").unlink()
    (volume / "part").mkdir()
    assert bound(directory, volume, "part").is_dir()


def test_link_within_the_volume_is_followed(volume: Path, directory: PodDir, may_mount: bool) -> None:
    """Every file of a config map volume is such a link."""
    (volume / "..1").mkdir()
    (volume / "..1/key").write_text("x")
    (volume / "..data").symlink_to("..1")
    (volume / "key").symlink_to("..data/key")
    if may_mount:
        assert bound(directory, volume, "key").read_text() == "x"
    else:
        with pytest.raises(ContainerConfigError, match=NO_RIGHT):
            bound(directory, volume, "key")


@pytest.mark.parametrize("trick", ["link", "link/inner", "link/new", "dangling", "loop"])
def test_link_out_of_the_volume_is_refused(volume: Path, folder: Path, directory: PodDir, trick: str) -> None:
    """Nothing outside is mounted or created, and the message has no path of the machine."""
    outside = folder / "outside"
    (outside / "inner").mkdir(parents=True)
    (volume / "link").symlink_to(outside)
    (volume / "dangling").symlink_to(outside / "made")
    (volume / "loop").symlink_to("loop")
    with pytest.raises(
        ContainerConfigError, match=r'^failed to \w+ subPath (directory )?for volumeMount "v" of container "main"$'
    ):
        bound(directory, volume, trick)
    assert [path.name for path in outside.iterdir()] == ["inner"]


@pytest.mark.parametrize("swapped", ["a", "a/b"])
def test_folder_swapped_for_a_link_at_the_last_moment_is_refused(
    volume: Path, folder: Path, directory: PodDir, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap happens between resolving the path and opening it."""
    (folder / "outside/b").mkdir(parents=True)
    (volume / "a/b").mkdir(parents=True)
    original = os.path.realpath

    def swap(path: str, *, strict: bool = False) -> str:
        found = original(path, strict=strict)
        if found.endswith("a/b"):
            (volume / swapped).rename(folder / "away")
            (volume / swapped).symlink_to(folder / "outside")
        return found

    monkeypatch.setattr(os.path, "realpath", swap)
    with pytest.raises(
        ContainerConfigError, match=r'^failed to prepare subPath for volumeMount "v" of container "main"$'
    ):
        bound(directory, volume, "a/b")
    assert (volume / swapped).is_symlink()


def test_file_in_the_way_of_a_folder_is_refused(volume: Path, directory: PodDir) -> None:
    """A folder cannot be created below a file."""
    (volume / "file").touch()
    with pytest.raises(ContainerConfigError, match=r"^failed to create subPath directory"):
        bound(directory, volume, "file/below")


def test_failed_bind_leaves_nothing(volume: Path, directory: PodDir) -> None:
    """The next attempt starts from the same state."""

    class Broken(SystemMounter):
        def bind(self, source: str, target: str) -> None:
            raise OSError(5, "Input/output error", target)

    with pytest.raises(ContainerConfigError, match=r"^failed to prepare subPath"):
        subpath.bind_sub_path(directory, mount_of(volume, "a"), "main", Broken())
    assert list(Path(directory.sub_paths).glob("*/*/*")) == []
