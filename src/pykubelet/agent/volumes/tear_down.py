"""Takes away what pods left on disk: their volumes first, then their folders.

Blocks, so it runs in a thread. Works from what is on disk, not from memory, so that it is the same after a restart. A
volume of a kind we make is unmounted and emptied; of another kind only empty folders go. The folder of all volumes is
never deleted with its content.

Upstream: TearDownAt of the volume plugins, removeOrphanedPodVolumeDirs and cleanupOrphanedPodDirs in
pkg/kubelet/kubelet_volumes.go
"""

import os
from contextlib import suppress
from pathlib import Path

from pykubelet.agent.volumes import trees
from pykubelet.agent.volumes.mounting import Mounter
from pykubelet.agent.volumes.plan import Plugin
from pykubelet.agent.volumes.pod_dirs import VOLUMES, PodDir, pods_dir
from pykubelet.agent.volumes.problems import VolumesNotRemoved
from pykubelet.agent.volumes.sub_paths import remove_sub_paths

_OURS = frozenset(plugin.replace("/", "~") for plugin in Plugin)


def pods_on_disk(root: str) -> list[str]:
    """The UIDs of all pods that have a folder."""
    with suppress(FileNotFoundError), os.scandir(pods_dir(root)) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


def volume_paths(directory: PodDir) -> list[str]:
    """The volumes that a pod has on disk."""
    return [f"{directory.volumes}/{plugin}/{name}" for plugin, name in _volumes(directory)]


def tear_down_volumes(directory: PodDir, mounter: Mounter) -> None:
    """Remove all volumes of a pod; VolumesNotRemoved if some stay, after all others are gone."""
    left: list[str] = []
    causes: list[str] = []
    try:
        remove_sub_paths(directory, mounter)
    except OSError as error:
        # Its volumes may still be seen through what is bound.
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
    """Remove a pod's folder and all in it; VolumesNotRemoved or OSError if something stays."""
    tear_down_volumes(directory, mounter)
    with trees.opened(str(Path(directory.path).parent)) as pods:
        name = Path(directory.path).name
        with trees.opened(name, within=pods) as pod:
            trees.remove_tree(pod, VOLUMES, with_files=False)
            for other in trees.names_in(pod):
                trees.remove_tree(pod, other)
        os.rmdir(name, dir_fd=pods)


def _volumes(directory: PodDir) -> list[tuple[str, str]]:
    """Plugin and name of each volume on disk, as their folders are called."""
    found: list[tuple[str, str]] = []
    with suppress(FileNotFoundError), trees.opened(directory.volumes) as volumes:
        for plugin in trees.names_in(volumes):
            with suppress(NotADirectoryError), trees.opened(plugin, within=volumes) as folder:
                found += [(plugin, name) for name in trees.names_in(folder)]
    return found


def _tear_down(parent: str, name: str, mounter: Mounter, *, is_ours: bool) -> None:
    path = f"{parent}/{name}"
    while is_ours and trees.is_mount_point(path):
        mounter.unmount(path)
    with trees.opened(parent) as above:
        trees.remove_tree(above, name, with_files=is_ours)
