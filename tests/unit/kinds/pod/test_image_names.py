"""The parts of an image's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kinds.pod.defaults import ImageName, parse_image_name, with_default_tag

_DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("busybox", ImageName("docker.io/library/busybox", "latest", "")),
        ("busybox:1.36", ImageName("docker.io/library/busybox", "1.36", "")),
        ("me/app", ImageName("docker.io/me/app", "latest", "")),
        ("localhost:5000/me/app:2", ImageName("localhost:5000/me/app", "2", "")),
        (f"example.org/app@{_DIGEST}", ImageName("example.org/app", "", _DIGEST)),
        (f"example.org/app:3@{_DIGEST}", ImageName("example.org/app", "3", _DIGEST)),
    ],
)
def test_image_name_is_parsed(text: str, name: ImageName) -> None:
    assert parse_image_name(text) == name


@pytest.mark.parametrize(
    ("text", "tagged"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        (f"busybox@{_DIGEST}", f"busybox@{_DIGEST}"),
    ],
)
def test_name_gets_a_tag_only_if_it_has_none(text: str, tagged: str) -> None:
    assert with_default_tag(text) == tagged


@given(st.text(alphabet="aA0.-_/:@", max_size=30))
def test_any_text_is_an_image_name_or_refused(text: str) -> None:
    """A text that is no name raises ValueError, and adding the default tag twice changes nothing."""
    try:
        tagged = with_default_tag(text)
    except ValueError:
        return
    assert with_default_tag(tagged) == tagged
    assert parse_image_name(tagged).repository == parse_image_name(text).repository
