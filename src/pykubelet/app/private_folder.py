"""Folders that hold keys and secrets: refused if somebody else has a hand in them.

A folder that was there before may belong to another user, or be open to everybody, as one in /tmp may be: whoever can
rename in it can put keys of his own in the place of ours.
"""

import os
import stat
from pathlib import Path

from pykubelet.app.settings import CannotStart

_ROOT = 0


def make_private_folder(path: Path, mode: int) -> None:
    """Make it, unless it is there; CannotStart if it cannot be made or is not ours alone."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise CannotStart(f"{error.filename or path}: {error.strerror}") from error
    if problem := folder_problem(status.st_mode, status.st_uid, me=os.geteuid()):
        raise CannotStart(f"{path}: {problem}")


def folder_problem(mode: int, owner: int, *, me: int) -> str:
    """Why a folder cannot be trusted; empty if it can."""
    if owner not in {me, _ROOT}:
        return f"it belongs to another user ({owner}): choose another folder, or chown it"
    if mode & stat.S_IWOTH:
        return "everybody may write to it: take that right from others (chmod o-w)"
    return ""
