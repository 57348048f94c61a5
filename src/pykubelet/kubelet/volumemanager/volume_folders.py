"""The folders of volumes that this machine provides: created empty, and removed with their content.

All are below one root that only the node's user may enter. A folder is renamed before it is removed, so that a
half-removed one is never mistaken for a volume. Links are not followed and mounts are not crossed. Where the file
system has project quotas, a folder holds no more than its volume's capacity.
"""

import os
from contextlib import suppress
from pathlib import Path

from pykubelet.kubelet.volumemanager import filesystem, fsquota

# Any user of any container may write there; the root keeps other processes out.
_VOLUME_MODE = 0o777
_ROOT_MODE = 0o700


class VolumeFolders:
    """The folders of provisioned volumes; blocking calls."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self, name: str, capacity: int) -> bool:
        """Creates the folder of a volume, and returns whether its capacity in bytes is enforced.

        An existing folder keeps its content.
        """
        self._root.mkdir(_ROOT_MODE, parents=True, exist_ok=True)
        with filesystem.opened(str(self._root)) as root:
            os.fchmod(root, _ROOT_MODE)
            with suppress(FileNotFoundError), filesystem.opened(name, within=root) as folder:
                return fsquota.change(folder, capacity)
            # Under another name first, so that a volume never has other permissions, not even after a crash.
            unfinished = f".new-{name}"
            _remove(root, unfinished)
            os.mkdir(unfinished, _ROOT_MODE, dir_fd=root)
            with filesystem.opened(unfinished, within=root) as made:
                os.fchmod(made, _VOLUME_MODE)
                is_limited = fsquota.create(made, capacity)
            os.rename(unfinished, name, src_dir_fd=root, dst_dir_fd=root)
            os.fsync(root)
            return is_limited

    def expand(self, name: str, capacity: int) -> None:
        """Raises the capacity of a volume's folder, where it is enforced."""
        with filesystem.opened(str(self._root)) as root, filesystem.opened(name, within=root) as folder:
            fsquota.change(folder, capacity)

    def remove(self, name: str) -> None:
        """Removes a folder with its content; a missing one is fine. Raises OSError if something is left."""
        with suppress(FileNotFoundError), filesystem.opened(str(self._root)) as root:
            deleted = f".deleted-{name}"
            with suppress(FileNotFoundError):
                _remove(root, deleted)
                os.rename(name, deleted, src_dir_fd=root, dst_dir_fd=root)
            _remove(root, deleted)


def _remove(root: int, name: str) -> None:
    """Removes a folder, if it exists, and frees its quota."""
    with suppress(FileNotFoundError, NotADirectoryError), filesystem.opened(name, within=root) as folder:
        fsquota.forget(folder)
    filesystem.remove_tree(root, name)
