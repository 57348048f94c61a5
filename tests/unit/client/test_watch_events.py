"""Watch streams are split into lines of limited length, and the lines parsed as events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api import serializer
from pykubelet.api.errors import Expired, InternalError
from pykubelet.api.schema import PODS
from pykubelet.api.scheme import PODS as POD_KIND
from pykubelet.api.scheme import as_documents
from pykubelet.client.request import LineSplitter, read_event


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=20).map(lambda text: text.replace(b"\n", b"n")), max_size=8), st.data())
def test_splitter_gives_the_same_lines_however_they_arrive(lines: list[bytes], data: st.DataObject) -> None:
    """A chunk may end anywhere."""
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    splitter = LineSplitter()
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.lines(stream[start:end])
    assert found == [line for line in lines if line.strip()]
    assert not splitter.is_within_line


def test_splitter_refuses_a_line_that_is_too_long() -> None:
    """Also when the line arrives in several chunks."""
    splitter = LineSplitter(max_bytes=10)
    assert list(splitter.lines(b"0123456789\n01234")) == [b"0123456789"]
    assert splitter.is_within_line
    with pytest.raises(InternalError, match="more than 10 bytes"):
        list(splitter.lines(b"567890"))


def test_read_event_gives_typed_objects_and_documents() -> None:
    line = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"7"}}}'
    typed = read_event(POD_KIND, line)
    assert typed is not None
    assert typed.object is not None
    assert (typed.type, typed.object.metadata.name, typed.resource_version) == ("ADDED", "a", "7")
    plain = read_event(as_documents(PODS), line)
    assert plain is not None
    assert plain.object == {"kind": "Pod", "metadata": {"name": "a", "resourceVersion": "7"}}


def test_read_event_gives_a_bookmark_without_an_object() -> None:
    event = read_event(POD_KIND, b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}}')
    assert event is not None
    assert (event.type, event.object, event.resource_version) == ("BOOKMARK", None, "9")


def test_read_event_raises_the_error_of_an_error_event() -> None:
    """A 410 in the stream raises Expired."""
    with pytest.raises(Expired, match="too old"):
        read_event(POD_KIND, b'{"type":"ERROR","object":' + serializer.encode(Expired("too old").to_status()) + b"}")
    with pytest.raises(InternalError):
        read_event(POD_KIND, b'{"type":"ERROR","object":"?"}')


def test_read_event_ignores_unknown_event_types() -> None:
    assert read_event(POD_KIND, b'{"type":"RENAMED","object":{}}') is None


@pytest.mark.parametrize("line", [b"{", b"[]", b"x", b'{"type":"ADDED","object":[]}', b'{"type":"ADDED","object":'])
def test_read_event_rejects_lines_that_are_not_events(line: bytes) -> None:
    with pytest.raises(InternalError, match="unable to decode an event"):
        read_event(POD_KIND, line)
