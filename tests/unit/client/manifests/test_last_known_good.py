"""Last known good: an item of a manifest goes only when it was deliberately removed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.client.manifests.last_known_good import FileReading, PathScan, PathView, advance

Item = tuple[str, int]
"""A name, and a version."""
HERE, ELSEWHERE = (1, 1), (1, 2)
A, B, A2 = ("a", 1), ("b", 1), ("a", 2)


def look(
    files: dict[str, FileReading[Item] | None], *, folder: tuple[int, int] | None = HERE, problem: str = ""
) -> PathScan[Item]:
    return PathScan(path="/m", is_folder=True, folder=folder, files=files, is_definite=True, problem=problem)


def read(*items: Item, problem: str = "") -> FileReading[Item]:
    return FileReading(items=items, problem=problem, stamp=(1,))


def after(view: PathView[Item], scan: PathScan[Item]) -> PathView[Item]:
    return advance(view, scan, name_of=lambda item: item[0], noun="things")


def seen(*scans: PathScan[Item]) -> PathView[Item]:
    view: PathView[Item] = PathView(path="/m")
    for scan in scans:
        view = after(view, scan)
    return view


def items(view: PathView[Item]) -> list[Item]:
    return [item for reading in view.files.values() for item in reading.items]


def test_file_with_a_problem_keeps_items_it_no_longer_defines() -> None:
    """Valid documents count, and so do old items, which the broken documents may have defined."""
    view = seen(look({"/m/f": read(A, B)}), look({"/m/f": read(A2, problem="line 9: bad")}))
    assert items(view) == [A2, B]
    assert view.files["/m/f"].problem == "line 9: bad"
    view = after(view, look({"/m/f": read(A2)}))
    assert view.files == {"/m/f": read(A2)}


def test_unchanged_file_stays_as_it_was() -> None:
    """None means that the file is unchanged, problem included; a file never read yields no items yet."""
    view = seen(look({"/m/f": read(A, problem="p")}), look({"/m/f": None, "/m/new": None}))
    assert view.files == {"/m/f": read(A, problem="p")}


def test_equal_items_stay_the_same_objects() -> None:
    """A file that was only touched causes no comparison of items."""
    first = seen(look({"/m/f": read(("a", 1))}))
    assert after(first, look({"/m/f": read(("a", 1))})).files["/m/f"].items is first.files["/m/f"].items


@pytest.mark.parametrize(
    ("scan", "kept", "problem"),
    [
        pytest.param(look({}), False, "", id="all files removed"),
        pytest.param(look({}, folder=None, problem="gone"), True, "gone", id="folder vanished"),
        pytest.param(look({}, folder=ELSEWHERE), True, "another, empty folder is here now", id="folder unmounted"),
        pytest.param(look({"/m/g": read()}, folder=ELSEWHERE), False, "", id="another folder, with files"),
        pytest.param(look({"/m/f": read()}), False, "", id="explicit empty list"),
        pytest.param(look({"/m/f": read(problem="bad")}), True, "", id="file broken"),
    ],
)
def test_items_are_dropped_only_when_removed(scan: PathScan[Item], kept: bool, problem: str) -> None:
    """A vanished folder or broken file keeps its items with a problem; the next good scan clears it."""
    good = look({"/m/f": read(A)})
    view = seen(good, scan)
    assert bool(items(view)) is kept
    assert view.problem == (f"{problem}; the things known from it are kept" if problem else "")
    assert view.has_vanished is bool(problem)
    healed = seen(good, scan, scan, good)
    assert (healed.problem, healed.has_vanished, healed.files) == ("", False, {"/m/f": read(A)})


def test_vanished_folder_without_items_does_not_mention_kept_items() -> None:
    assert seen(look({}, folder=None, problem="gone")).problem == "gone"


_READINGS = st.builds(
    lambda names, problem: read(*((name, 1) for name in names), problem=problem),
    st.sets(st.sampled_from("abc")).map(sorted),
    st.sampled_from(["", "", "bad"]),
)
_SCANS = st.builds(
    look,
    st.dictionaries(st.sampled_from(["/m/x", "/m/y", "/m/z"]), st.none() | _READINGS),
    folder=st.sampled_from([HERE, HERE, ELSEWHERE, None]),
)


@settings(max_examples=100, deadline=None)
@given(scans=st.lists(_SCANS, max_size=6))
def test_item_is_dropped_only_with_its_file_or_by_a_valid_one(scans: list[PathScan[Item]]) -> None:
    """For any order of scans; items that a file defines now are always present."""
    view = seen()
    for scan in scans:
        before, view = view, after(view, scan)
        for path, reading in scan.files.items() if scan.folder else ():
            if reading is not None:
                assert set(reading.items) <= set(view.files[path].items)
        for path, reading in before.files.items():
            for item in set(reading.items) - set(view.files.get(path, read()).items):
                now = scan.files.get(path)
                assert scan.folder is not None
                assert path not in scan.files or (now is not None and not now.problem and item not in now.items)
