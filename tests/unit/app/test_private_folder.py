"""Folders that hold secrets must belong to us alone."""

from pathlib import Path

import pytest

from pykubelet.app.program import folder_problem, make_private_folder
from pykubelet.app.settings import CannotStart


@pytest.mark.parametrize(
    ("mode", "owner", "me", "words"),
    [
        (0o700, 1000, 1000, ""),
        (0o755, 1000, 1000, ""),
        (0o775, 1000, 1000, ""),
        (0o700, 0, 1000, ""),
        (0o700, 0, 0, ""),
        (0o700, 1001, 1000, "another user (1001)"),
        (0o700, 1000, 0, "another user (1000)"),
        (0o777, 1000, 1000, "everybody may write"),
        (0o1777, 0, 0, "everybody may write"),
    ],
)
def test_folder_is_trusted_if_nobody_else_has_a_hand_in_it(mode: int, owner: int, me: int, words: str) -> None:
    """The owner must be the current user or root. A sticky bit does not help: others could still add files."""
    problem = folder_problem(mode, owner, me=me)
    assert bool(problem) == bool(words)
    assert words in problem


def test_folder_is_made_or_refused(tmp_path: Path) -> None:
    """Missing parents are created; a folder that others can write to, or a path below a file, is refused."""
    new = tmp_path / "a/b"
    make_private_folder(new, 0o700)
    assert new.stat().st_mode & 0o777 == 0o700
    new.chmod(0o777)
    with pytest.raises(CannotStart, match="everybody may write"):
        make_private_folder(new, 0o700)
    (tmp_path / "file").touch()
    with pytest.raises(CannotStart):
        make_private_folder(tmp_path / "file/x", 0o700)
