"""Properties of the file paths of a volume."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.volumemanager.atomic_writer import cleaned, parents, top_names
from pykubelet.kubelet.volumemanager.errors import VolumeError


def test_path_may_not_be_file_and_folder_at_once() -> None:
    """It is refused before any file is written."""
    with pytest.raises(VolumeError, match=r"^invalid path: a/b is a file and a directory at once$"):
        cleaned({"a/b": 1, "a/b/c": 2})


@settings(max_examples=300)
@given(st.dictionaries(st.text(alphabet="a./", max_size=10), st.integers(), max_size=4))
def test_clean_paths_stay_inside_and_are_their_own_clean_form(payload: dict[str, int]) -> None:
    """Otherwise the whole payload is refused."""
    try:
        clean = cleaned(payload)
    except VolumeError:
        return
    assert cleaned(clean) == clean
    for path in clean:
        assert not path.startswith(("/", ".."))
        assert not {"", ".", ".."} & set(path.split("/"))
        assert set(parents(path)) == {path[: len("/".join(path.split("/")[:n]))] for n in range(1, path.count("/") + 1)}
    assert all(any(path == name or path.startswith(f"{name}/") for path in clean) for name in top_names(clean))
