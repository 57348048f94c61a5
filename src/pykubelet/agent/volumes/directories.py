"""The folder that a volume is: on disk, or in memory where we may mount.

Upstream: pkg/volume/emptydir/empty_dir.go, also underneath every volume whose files come from the API. On purpose
otherwise: there is no marker of readiness, because a folder appears under its name only when it is ready.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from pykubelet.agent.volumes import trees
from pykubelet.agent.volumes.mounting import Mounter, NoRightToMount
from pykubelet.agent.volumes.plan import PlannedVolume

# Any user of any container may write there; the pod's own folder keeps others out.
_MODE = 0o777
_PARENT_MODE = 0o750


def make_pod_folders(*paths: str) -> None:
    """Folders of a pod that only the node looks into, and those above them."""
    for path in paths:
        Path(path).mkdir(_PARENT_MODE, parents=True, exist_ok=True)


def make_volume_folder(path: str, planned: PlannedVolume, *, group: int | None, mounter: Mounter) -> bool:
    """Make the folder of a volume, unless it is there: then it is left as its containers have made it.

    True if it has just been made on disk although it should be in memory, because we have no right to mount.
    """
    mode = _MODE if group is None else _MODE | stat.S_ISGID
    make_pod_folders(str(Path(path).parent))
    is_new = not Path(path).exists()
    if is_new:
        _make_folder(path, mode, group)
    if not planned.in_memory or trees.is_mount_point(path):
        return False
    try:
        mounter.mount_memory(path, size_bytes=planned.size_bytes, mode=mode, group=group)
    except NoRightToMount:
        return is_new
    return False


def make_mount_points(path: str, relative_paths: tuple[str, ...]) -> None:
    """Folders inside a volume for what containers mount there; what is there already is left, whatever it is."""
    with trees.opened(path) as volume:
        for relative in relative_paths:
            above = ""
            for name in relative.split("/"):
                with suppress(FileExistsError, NotADirectoryError), trees.opened_below(volume, above) as parent:
                    os.mkdir(name, 0o755, dir_fd=parent)
                above = f"{above}/{name}" if above else name


def _make_folder(path: str, mode: int, group: int | None) -> None:
    """Under another name first, so that nobody ever sees it with other rights, not even after a crash."""
    parent, name = str(Path(path).parent), Path(path).name
    with trees.opened(parent) as above:
        # No volume is called so: their names start with a letter or digit.
        unfinished = f".{name}"
        trees.remove_tree(above, unfinished)
        os.mkdir(unfinished, 0o700, dir_fd=above)
        with trees.opened(unfinished, within=above) as made:
            if group is not None:
                # An ordinary user may not, but then runs the containers as itself.
                with suppress(PermissionError):
                    os.fchown(made, -1, group)
            os.fchmod(made, mode)
        os.rename(unfinished, name, src_dir_fd=above, dst_dir_fd=above)
