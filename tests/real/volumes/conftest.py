"""A folder on a real disk, as an ordinary user, and as root too if the tests run as root."""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.kubelet.volumemanager.filesystem import NoRightToMount, SystemMounter

NOBODY = 65534
_PR_SET_DUMPABLE = 4
USERS = ["root", "ordinary user"] if os.geteuid() == 0 else ["ordinary user"]


@pytest.fixture(params=USERS)
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A new folder owned by the user that the test runs as."""
    path = Path(tempfile.mkdtemp(prefix="pykubelet-volumes-"))
    becomes_nobody = request.param == "ordinary user" and os.geteuid() == 0
    if becomes_nobody:
        os.chown(path, NOBODY, NOBODY)
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
        # A process that changes its user loses access to its own /proc; a real ordinary user has it.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1)
    try:
        yield path
    finally:
        if becomes_nobody:
            os.seteuid(0)
            os.setegid(0)
        shutil.rmtree(path)


@pytest.fixture
def may_mount(folder: Path) -> bool:
    """Whether the test's user may mount."""
    place = folder / "try"
    place.mkdir()
    mounter = SystemMounter()
    try:
        mounter.mount_memory(str(place), size_bytes=4096, mode=0o700, group=None)
    except NoRightToMount:
        return False
    else:
        mounter.unmount(str(place))
        return True
    finally:
        place.rmdir()
