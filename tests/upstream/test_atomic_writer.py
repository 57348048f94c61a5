"""Cases 6.24-51 to -54: files of a volume are replaced all at once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pykubelet.kubelet.volumemanager.atomic_writer import cleaned, top_names, write_payload
from pykubelet.kubelet.volumemanager.errors import VolumeError
from pykubelet.kubelet.volumemanager.projected import FileContent

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def files(**content: str) -> dict[str, FileContent]:
    return {path.replace("_", "/"): FileContent(text.encode()) for path, text in content.items()}


ALLOWED = ["i/am/well/behaved.txt", "keepyourheaddownandfollowtherules.txt", "a/..b", "a" * 255]
REFUSED = [
    ("a" * 4097, "must be less than or equal to 4096 characters"),
    ("a" * 256, "filenames must be less than or equal to 255 characters"),
    ("/dev/null", "must be relative path: /dev/null"),
    ("..sneaky.txt", "must not start with '..': ..sneaky.txt"),
    ("./..data", "must not start with '..': ..data"),
    ("hello/there/../../../../etc/passwd", "must not contain '..': hello/there/../../../../etc/passwd"),
    ("hello/../etc/somethingbad", "must not contain '..': hello/../etc/somethingbad"),
    ("..", "must not contain '..': .."),
    ("", 'must not be empty: ""'),
    (".", 'must not be empty: "."'),
    ("a\0b", "must not contain a NUL byte"),
    ("\ud800", "must be valid UTF-8"),
]


@pytest.mark.parametrize("path", [pytest.param(path, id=f"6.24-51 {path[:30]}") for path in ALLOWED])
def test_path_is_allowed_when_it_stays_inside(path: str) -> None:
    assert cleaned({path: 1}) == {path: 1}


@pytest.mark.parametrize(
    ("path", "complaint"), [pytest.param(*case, id=f"6.24-51 {case[0][:30]!r}") for case in REFUSED]
)
def test_path_is_refused_when_it_leads_out_or_is_too_long(path: str, complaint: str) -> None:
    with pytest.raises(VolumeError) as caught:
        cleaned({path: 1})
    assert str(caught.value) == f"invalid path: {complaint}"


@pytest.mark.case("6.24-52 one link for every name at the top")
def test_volume_shows_one_link_for_every_top_name(tmp_path: Path) -> None:
    """Each top-level file or directory gets one link, and paths are cleaned first."""
    assert top_names(["foo/bar", "foo/bar/txt", "bar/txt"]) == {"foo", "bar"}
    payload = {"foo/bar/txt": FileContent(b"1"), "bar/txt": FileContent(b"2"), "./baz": FileContent(b"3")}
    payload["foo///qux"] = FileContent(b"4")
    assert write_payload(str(tmp_path), payload, now=NOW)
    links = {name: str((tmp_path / name).readlink()) for name in ("foo", "bar", "baz")}
    assert links == {"foo": "..data/foo", "bar": "..data/bar", "baz": "..data/baz"}
    assert (tmp_path / "foo/bar/txt").read_text() == "1"
    assert (tmp_path / "foo/qux").read_text() == "4"
    assert str((tmp_path / "..data").readlink()) == "..2026_01_02_03_04_05.000000"


@pytest.mark.case("6.24-53 visible links deleted between two writes")
def test_deleted_links_are_restored_when_the_content_is_unchanged(tmp_path: Path) -> None:
    payload = files(foo_bar="1", baz="2")
    write_payload(str(tmp_path), payload, now=NOW)
    (tmp_path / "foo").unlink()
    (tmp_path / "baz").unlink()
    assert not write_payload(str(tmp_path), payload, now=NOW)
    assert (tmp_path / "foo/bar").read_text() == "1"
    assert (tmp_path / "baz").read_text() == "2"


@pytest.mark.case("6.24-54 the same payload twice, then a key less")
def test_version_changes_only_when_content_does(tmp_path: Path) -> None:
    """Writing the same payload changes nothing; a missing key makes a new version and removes the old one."""
    write_payload(str(tmp_path), files(one="1", two="2"), now=NOW)
    first = str((tmp_path / "..data").readlink())
    later = NOW + timedelta(seconds=1)
    assert not write_payload(str(tmp_path), files(one="1", two="2"), now=later)
    assert str((tmp_path / "..data").readlink()) == first
    assert write_payload(str(tmp_path), files(one="1"), now=later)
    second = str((tmp_path / "..data").readlink())
    assert second != first
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([second, "..data", "one"])
