"""Responses and watch events in the requested format."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import NotAcceptable
from pykubelet.api.serializer import encode
from pykubelet.apiserver.handlers import responsewriters
from pykubelet.apiserver.handlers.responsewriters import (
    PARTIAL,
    PARTIAL_LIST,
    PLAIN,
    TABLE,
    ResponseFormat,
    ResponseView,
    encode_list,
    encode_response,
    is_slow_to_encode,
    plain_lines,
    view_of,
    watch_lines,
)
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.request import ApiResponse, LargeList, SerializedEvent
from pykubelet.httpserver.response import HttpResponse

CONFIG_MAPS = next(served for served in BUILT_IN_KINDS if served.resource.plural == "configmaps")
OBJECT = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "c", "resourceVersion": "7"},
    "data": {"k": "v"},
}
LIST = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [OBJECT]}
STATUS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def now() -> datetime:
    return datetime(2026, 1, 2, tzinfo=UTC)


def view(form: ResponseFormat, *, pretty: bool = False) -> ResponseView:
    return view_of(form, CONFIG_MAPS, {}, pretty=pretty)


def test_answer_reply_passes_stored_text_through() -> None:
    """The body is the stored bytes object, not a copy."""
    text = encode(OBJECT)
    assert encode_response(ApiResponse(body=text, code=201), view(PLAIN), now).body is text


@pytest.mark.parametrize(
    ("form", "pretty", "start"),
    [
        pytest.param(PLAIN, True, b'{\n  "kind": "ConfigMap",\n', id="pretty"),
        pytest.param(ResponseFormat(yaml=True), False, b"kind: ConfigMap\napiVersion: v1\n", id="yaml"),
        pytest.param(ResponseFormat(TABLE, "v1"), False, b'{"kind":"Table","apiVersion":"meta.k8s.io/v1",', id="table"),
        pytest.param(ResponseFormat(PARTIAL, "v1"), False, b'{"kind":"PartialObjectMetadata",', id="metadata"),
        pytest.param(ResponseFormat(TABLE, "v1", yaml=True), False, b"kind: Table\n", id="table as yaml"),
    ],
)
def test_answer_reply_has_the_requested_form(*, form: ResponseFormat, pretty: bool, start: bytes) -> None:
    """The cases are indented JSON, YAML, a table and partial metadata."""
    assert encode_response(ApiResponse(body=OBJECT), view(form, pretty=pretty), now).body.startswith(start)


def test_answer_reply_keeps_lists_and_objects_apart() -> None:
    """Partial metadata of a list needs a list, and of an object an object."""
    reply = encode_response(ApiResponse(body=LIST), view(ResponseFormat(PARTIAL_LIST, "v1")), now)
    assert json.loads(reply.body)["items"][0]["kind"] == PARTIAL
    for form, body in ((ResponseFormat(PARTIAL_LIST, "v1"), OBJECT), (ResponseFormat(PARTIAL, "v1"), LIST)):
        with pytest.raises(NotAcceptable):
            encode_response(ApiResponse(body=body), view(form), now)


@pytest.mark.parametrize("kind", [TABLE, PARTIAL, PARTIAL_LIST])
def test_answer_reply_leaves_a_status_alone(kind: str) -> None:
    """A Status is never converted."""
    reply = encode_response(ApiResponse(body=STATUS), view(ResponseFormat(kind, "v1")), now)
    assert json.loads(reply.body) == STATUS


def events_of(lines: bytes) -> list[Any]:
    return [json.loads(line) for line in lines.splitlines()]


def test_watch_lines_have_columns_in_the_first_table_only() -> None:
    """An ERROR event keeps its Status."""
    lines = watch_lines(view(ResponseFormat(TABLE, "v1")), now)
    text = encode(OBJECT)
    batch = lines([SerializedEvent("ADDED", text), SerializedEvent("MODIFIED", text)])
    first, second = events_of(batch)
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert first["object"]["columnDefinitions"]
    assert not second["object"]["columnDefinitions"]
    assert events_of(lines([SerializedEvent("ERROR", encode(STATUS))])) == [{"type": "ERROR", "object": STATUS}]


@given(st.lists(st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]), st.text()), max_size=5))
@settings(max_examples=50)
def test_plain_lines_are_one_line_for_each_event(changes: list[tuple[Any, str]]) -> None:
    """This holds for any content of the objects."""
    lines = plain_lines([SerializedEvent(kind, encode({"x": text})) for kind, text in changes])
    assert lines.count(b"\n") == len(changes)
    assert [json.loads(line) for line in lines.split(b"\n")[:-1]] == [
        {"type": kind, "object": {"x": text}} for kind, text in changes
    ]


@pytest.mark.parametrize(
    ("form", "size", "long"),
    [
        pytest.param(PLAIN, 10**6, False, id="as-stored"),
        pytest.param(ResponseFormat(yaml=True), 10**6, True, id="yaml"),
        pytest.param(ResponseFormat(TABLE, "v1"), 10**6, True, id="table"),
        pytest.param(ResponseFormat(TABLE, "v1"), 10**3, False, id="small"),
    ],
)
def test_only_large_answers_in_another_form_are_slow_to_encode(form: ResponseFormat, size: int, *, long: bool) -> None:
    """The server encodes slow ones in a thread."""
    assert is_slow_to_encode(ApiResponse(body=b"x" * size), view(form)) is long


_FORMS = [
    PLAIN,
    ResponseFormat(yaml=True),
    ResponseFormat(TABLE, "v1"),
    ResponseFormat(TABLE, "v1", yaml=True),
    ResponseFormat(PARTIAL_LIST, "v1beta1"),
]


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize("form", _FORMS, ids=lambda form: f"{form.kind}{' as yaml' * form.yaml}")
@given(data=st.lists(st.dictionaries(st.text(max_size=9), st.text(max_size=20), max_size=3), min_size=1, max_size=9))
@settings(max_examples=20)
def test_large_list_in_parts_has_the_text_of_the_whole(
    *, form: ResponseFormat, pretty: bool, data: list[Mapping[str, str]]
) -> None:
    """However its items fall into parts, and with the warnings of the request."""
    items = [{"metadata": {"name": f"c{number}"}, "data": fields} for number, fields in enumerate(data)]
    head = encode({name: value for name, value in LIST.items() if name != "items"})[:-1] + b',"items":['
    answer = ApiResponse(body=LargeList(head, [encode(item) for item in items], bytes), warnings=("careful",))

    async def run(convert: Callable[[Sequence[bytes]], bytes], texts: Sequence[bytes]) -> bytes:
        return convert(texts)

    async def whole() -> HttpResponse:
        reply = encode_list(answer, view(form, pretty=pretty), now, run)
        assert reply.parts is not None
        return reply._replace(body=b"".join([part async for part in reply.parts]), parts=None)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(responsewriters, "_LONG_BYTES", 60)
        assert asyncio.run(whole()) == encode_response(answer, view(form, pretty=pretty), now)


def test_large_list_is_refused_in_the_form_of_an_object() -> None:
    """Before anything is sent."""
    answer = ApiResponse(body=LargeList(b'{"kind":"ConfigMapList","items":[', [b"{}"], bytes))
    with pytest.raises(NotAcceptable):
        encode_list(answer, view(ResponseFormat(PARTIAL, "v1")), now, lambda *_: pytest.fail("nothing to convert"))
