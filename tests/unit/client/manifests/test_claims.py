"""Conflict resolution: each name comes from a single manifest file."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.client.manifests.last_known_good import (
    ClaimedObjects,
    FileClaim,
    FileReading,
    resolve_claims,
    with_losses,
)

Item = tuple[str, str]
"""Name and UID."""


def claim_of(item: Item) -> FileClaim:
    return FileClaim(item[0], f"thing {item[0]}", item[1])


def decide(files: dict[str, list[Item]], owners: dict[str, str] | None = None) -> ClaimedObjects[Item]:
    return resolve_claims(
        {path: FileReading(items=tuple(items)) for path, items in files.items()}, owners or {}, claim_of
    )


def test_first_file_wins_unless_another_file_owns_the_name() -> None:
    """The owner keeps the name until its file drops it; then the next file gets it."""
    files = {"/b": [("web", "1")], "/a": [("web", "2")]}
    first = decide(files)
    assert first.items == (("web", "1"),)
    assert first.losses == {"/a": ("thing web is ignored here: /b defines it",)}
    kept = decide(files, {"web": "/a"})
    assert (kept.items, kept.owners) == ((("web", "2"),), {"web": "/a"})
    assert list(kept.losses) == ["/b"]
    assert decide({"/b": [("web", "1")]}, {"web": "/a"}).owners == {"web": "/b"}


def test_duplicate_name_or_uid_is_reported() -> None:
    """Within a file the first one counts; several items may have no UID."""
    outcome = decide({"/f": [("web", "1"), ("web", "2"), ("other", "1"), ("x", ""), ("y", "")]})
    assert outcome.items == (("web", "1"), ("x", ""), ("y", ""))
    assert outcome.losses["/f"] == (
        "thing web is defined more than once here: the first counts",
        "thing other is ignored here: its uid belongs to thing web of /f",
    )


def test_losses_are_appended_to_the_problems_of_the_file() -> None:
    """Each file has a single text."""
    assert with_losses({"/a": "bad", "/b": "worse"}, {"/a": ("lost", "more"), "/c": ("late",)}) == {
        "/a": "bad; lost; more",
        "/b": "worse",
        "/c": "late",
    }


_ITEMS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1", "2", "3"])), max_size=3)
_FILES = st.dictionaries(st.sampled_from(["/x", "/y", "/z"]), _ITEMS)


@settings(max_examples=150, deadline=None)
@given(looks=st.lists(_FILES, max_size=5))
def test_names_and_uids_are_unique_for_any_files(looks: list[dict[str, list[Item]]]) -> None:
    """Each winner comes from its owner's file, and every other claim is reported as lost."""
    owners: dict[str, str] = {}
    for files in looks:
        outcome = decide(files, owners)
        owners = dict(outcome.owners)
        assert sorted(name for name, _ in outcome.items) == sorted(owners)
        uids = [uid for _, uid in outcome.items if uid]
        assert len(set(uids)) == len(uids)
        assert all(item in files[owners[item[0]]] for item in outcome.items)
        lost = sum(map(len, outcome.losses.values()))
        assert len(outcome.items) + lost == sum(map(len, files.values()))


@settings(max_examples=100, deadline=None)
@given(
    looks=st.lists(st.dictionaries(st.sampled_from(["/x", "/y", "/z"]), st.sets(st.sampled_from("abc"))), max_size=5)
)
def test_file_keeps_a_name_as_long_as_it_defines_it(looks: list[dict[str, set[str]]]) -> None:
    """Every name that some file defines has an owner."""
    owners: dict[str, str] = {}
    for named in looks:
        outcome = decide({path: [(name, "") for name in sorted(names)] for path, names in named.items()}, owners)
        assert set(outcome.owners) == set().union(*named.values())
        kept = {name: path for name, path in owners.items() if name in named.get(path, ())}
        assert kept.items() <= outcome.owners.items()
        owners = dict(outcome.owners)
