"""The folders of volumes that this machine provides: created empty, and removed with their content.

All are below one root that only the node's user may enter. A folder is renamed before it is removed, so that a
half-removed one is never mistaken for a volume. Links are not followed and mounts are not crossed.
"""

import os
from contextlib import suppress
from pathlib import Path

from pykubelet.kubelet.volumemanager import filesystem

# Any user of any container may write there; the root keeps other processes out.
_VOLUME_MODE = 0o777
_ROOT_MODE = 0o700


class VolumeFolders:
    """The folders of provisioned volumes; blocking calls."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self, name: str) -> None:
        """Creates the folder of a volume; an existing one is left as it is."""
        self._root.mkdir(_ROOT_MODE, parents=True, exist_ok=True)
        with filesystem.opened(str(self._root)) as root:
            os.fchmod(root, _ROOT_MODE)
            with suppress(FileNotFoundError), filesystem.opened(name, within=root):
                return
            # Under another name first, so that a volume never has other permissions, not even after a crash.
            unfinished = f".new-{name}"
            filesystem.remove_tree(root, unfinished)
            os.mkdir(unfinished, _ROOT_MODE, dir_fd=root)
            with filesystem.opened(unfinished, within=root) as made:
                os.fchmod(made, _VOLUME_MODE)
            os.rename(unfinished, name, src_dir_fd=root, dst_dir_fd=root)
            os.fsync(root)

    def remove(self, name: str) -> None:
        """Removes a folder with its content; a missing one is fine. Raises OSError if something is left."""
        with suppress(FileNotFoundError), filesystem.opened(str(self._root)) as root:
            deleted = f".deleted-{name}"
            with suppress(FileNotFoundError):
                filesystem.remove_tree(root, deleted)
                os.rename(name, deleted, src_dir_fd=root, dst_dir_fd=root)
            filesystem.remove_tree(root, deleted)
