"""Request targets: decoded once, read as Go reads them, with no exception but BadRequest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest
from pykubelet.httpserver.request import pairs, read_query, read_target


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        pytest.param("/api/v1/pods", "/api/v1/pods", id="plain"),
        pytest.param("/api/v1/pods?limit=1", "/api/v1/pods", id="with a query"),
        pytest.param("https://host:6443/api/v1?x=1", "/api/v1", id="absolute form"),
        pytest.param("http://host", "/", id="absolute form without a path"),
        pytest.param("/a%2Fb", "/a/b", id="an escaped slash is a slash"),
        pytest.param("/a%252Fb", "/a%2Fb", id="decoded once only"),
        pytest.param("/%ff%C3%A9", "/\ufffd\u00e9", id="bytes that are no UTF-8"),
        pytest.param("/\udcffx", "/\ufffdx", id="raw bytes that are no UTF-8"),
        pytest.param("/..//../etc", "/..//../etc", id="dots stay what they are"),
    ],
)
def test_read_target_gives_the_decoded_path(raw: str, path: str) -> None:
    """The cases are the forms of a target, and attempts to abuse them."""
    assert read_target(raw).path == path


@pytest.mark.parametrize("raw", ["/a%zz", "/a%2", "*", "", "host:443", "/%"])
def test_read_target_refuses_what_is_no_path(raw: str) -> None:
    """They are invalid escapes, and targets of other methods."""
    with pytest.raises(BadRequest):
        read_target(raw)


@pytest.mark.parametrize(
    ("raw", "query"),
    [
        pytest.param("a=1&b=2", {"a": "1", "b": "2"}, id="two"),
        pytest.param("a=1&a=2", {"a": "1"}, id="the first value counts"),
        pytest.param("a", {"a": ""}, id="no value"),
        pytest.param("a=b%3Dc+d", {"a": "b=c d"}, id="escapes and plus"),
        pytest.param("a=1;b=2&c=3", {"c": "3"}, id="a semicolon makes a pair unreadable"),
        pytest.param("a=%zz&c=3", {"c": "3"}, id="so does a bad escape"),
        pytest.param("&&a=1&", {"a": "1"}, id="empty pairs"),
    ],
)
def test_read_query_keeps_the_first_value_of_each_parameter(raw: str, query: dict[str, str]) -> None:
    """Empty and invalid pairs are left out."""
    assert dict(read_query(raw)) == query


def test_pairs_keep_repeated_parameters() -> None:
    """A request for a health page can exclude several checks."""
    assert pairs("exclude=a&exclude=b") == [("exclude", "a"), ("exclude", "b")]


@given(st.text(max_size=60))
@settings(max_examples=100)
def test_read_target_survives_anything(raw: str) -> None:
    """For any input, path and query can be encoded as UTF-8."""
    try:
        target = read_target(f"/{raw}")
    except BadRequest:
        return
    target.path.encode()
    assert all(text.encode() is not None for pair in target.query.items() for text in pair)
