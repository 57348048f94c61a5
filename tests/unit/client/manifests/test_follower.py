"""When a changed file is read, and which files are manifests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.client.manifests.follower import SettlingFiles
from pykubelet.client.manifests.scanner import is_manifest_name


def test_name_is_due_after_its_last_change() -> None:
    """Each change restarts the wait with the quiet period of that change."""
    settling = SettlingFiles()
    settling.note("a", 0.0, 1.0)
    settling.note("b", 0.0, 0.1)
    assert settling.next_due() == 0.1
    settling.note("a", 0.05, 0.03)
    assert settling.take_due(0.09) == {"a"}
    assert settling.unsettled() == {"b"}
    assert settling.take_due(0.1) == {"b"}
    assert settling.next_due() is None
    assert settling.take_due(9.0) == frozenset()


def test_names_due_soon_after_the_first_are_taken_with_it() -> None:
    """For a rename: the new name is complete at once, while the old one waits a little in case it returns."""
    settling = SettlingFiles()
    settling.note("old", 0.0, 0.1)
    settling.note("new", 0.0, 0.03)
    settling.note("long", 0.0, 1.0)
    assert settling.next_due() == 0.1
    assert settling.take_due(0.1) == {"old", "new"}
    assert settling.next_due() == 1.0


@settings(max_examples=100, deadline=None)
@given(notes=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_every_name_is_due_once(notes: list[tuple[str, int, int]]) -> None:
    """In the end each changed name has been due."""
    settling = SettlingFiles()
    for name, at, quiet in notes:
        settling.note(name, at, quiet)
    due = settling.take_due(9)
    assert due | settling.take_due(18) == {name for name, _, _ in notes}
    assert due.isdisjoint(settling.unsettled())


@pytest.mark.parametrize(
    ("name", "by_default", "widened"),
    [
        ("web.yaml", True, True),
        ("web.yml", True, True),
        ("web.json", True, True),
        ("web", False, True),
        ("web.manifest", False, True),
        ("web.yaml.mcdorig", False, True),
        ("web.yaml.bak", False, False),
        ("web.yaml~", False, False),
        (".web.yaml", False, False),
        (".web.yaml.swp", False, False),
        ("web.yaml.swp", False, False),
        ("#web.yaml#", False, False),
        ("#web.yaml", False, False),
        (".#web.yaml", False, False),
        ("..data", False, False),
    ],
)
def test_manifest_is_recognized_by_its_file_name(name: str, by_default: bool, widened: bool) -> None:
    """Backup files of editors never count, other names only on request."""
    assert is_manifest_name(name) is by_default
    assert is_manifest_name(name, ("",)) is widened
