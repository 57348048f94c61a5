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
from pykubelet.apiserver.request import ApiResponse, SerializedEvent
from pykubelet.apiserver.serializer.protobuf_encoder import document_bytes, watch_frame
from pykubelet.apiserver.storage.codec import StoredList
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.httpserver.response import HttpResponse

CONFIG_MAPS = next(served for served in BUILT_IN_KINDS if served.resource.plural == "configmaps")
OBJECT: dict[str, Any] = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "c", "resourceVersion": "7"},
    "data": {"k": "v"},
}
LIST = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [OBJECT]}
PROTOBUF = ResponseFormat(protobuf=True)
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
        pytest.param(PROTOBUF, True, b"k8s\0\n\x0f\n\x02v1\x12\x09ConfigMap\x12", id="protobuf"),
        pytest.param(
            ResponseFormat(PARTIAL, "v1", protobuf=True),
            False,
            b"k8s\0\n\x27\n\x0emeta.k8s.io/v1\x12\x15PartialObjectMetadata\x12",
            id="metadata as protobuf",
        ),
    ],
)
def test_answer_reply_has_the_requested_form(*, form: ResponseFormat, pretty: bool, start: bytes) -> None:
    """The cases are indented JSON, YAML, protobuf, a table and partial metadata."""
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


def entry(number: int = 0, data: Mapping[str, str] = OBJECT["data"]) -> StoreEntry:
    document = {**OBJECT, "metadata": {"name": f"c{number}", "resourceVersion": "7"}, "data": data}
    return StoreEntry(StoreKey("configmaps", "default", f"c{number}"), 7, encode(document))


def test_protobuf_of_a_list_has_what_its_json_has() -> None:
    """The items are those that single objects and watches keep."""
    stored = StoredList(CONFIG_MAPS, {"resourceVersion": "9"}, [entry(number) for number in range(3)])
    answer = ApiResponse(body=stored)
    reply = encode_response(answer, view(PROTOBUF), now)
    assert reply.content_type == "application/vnd.kubernetes.protobuf"
    assert reply.body == document_bytes(answer.document)
    kept = [one.encoded(lambda _: b"") for one in stored.entries]
    assert all(kept)
    assert encode_response(ApiResponse(body=stored.entries[0]), view(PROTOBUF), now).body.endswith(kept[0])


def test_object_is_slow_to_encode_as_protobuf_only_the_first_time() -> None:
    """The server encodes large objects in a thread."""
    document = {**OBJECT, "data": {"k": "x" * 300_000}}
    answer = ApiResponse(body=StoreEntry(StoreKey("configmaps", "default", "c"), 7, encode(document)))
    assert is_slow_to_encode(answer, view(PROTOBUF))
    encode_response(answer, view(PROTOBUF), now)
    assert not is_slow_to_encode(answer, view(PROTOBUF))
    assert is_slow_to_encode(answer, view(ResponseFormat(PARTIAL, "v1", protobuf=True)))
    assert not is_slow_to_encode(answer, view(PLAIN))


def test_watch_frames_share_the_encoded_object() -> None:
    """Twenty watchers of a change cost one encoding; an event without an entry is encoded from its text."""
    shared = entry()
    frames = [watch_lines(view(PROTOBUF), now) for _ in range(20)]
    events = [SerializedEvent("ADDED", shared.text, shared)]
    sent = {lines(events) for lines in frames}
    assert sent == {watch_frame("ADDED", document_bytes(shared.document))}
    assert frames[0]([SerializedEvent("ADDED", shared.text)]) in sent
    status = SerializedEvent("ERROR", encode(STATUS))
    assert frames[0]([status]) == watch_frame("ERROR", document_bytes(STATUS))
    partial = watch_lines(view(ResponseFormat(PARTIAL, "v1", protobuf=True)), now)
    assert b"PartialObjectMetadata" in partial(events)
    assert b"PartialObjectMetadata" not in partial([status])


_FORMS = [
    PLAIN,
    ResponseFormat(yaml=True),
    ResponseFormat(TABLE, "v1"),
    ResponseFormat(TABLE, "v1", yaml=True),
    ResponseFormat(PARTIAL_LIST, "v1beta1"),
    PROTOBUF,
    ResponseFormat(PARTIAL_LIST, "v1", protobuf=True),
]


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize(
    "form", _FORMS, ids=lambda form: f"{form.kind}{' as yaml' * form.yaml}{' as protobuf' * form.protobuf}"
)
@given(data=st.lists(st.dictionaries(st.text(max_size=9), st.text(max_size=20), max_size=3), min_size=1, max_size=9))
@settings(max_examples=20)
def test_large_list_in_parts_has_the_text_of_the_whole(
    *, form: ResponseFormat, pretty: bool, data: list[Mapping[str, str]]
) -> None:
    """However its items fall into parts, and with the warnings of the request."""
    answer = ApiResponse(
        body=StoredList(CONFIG_MAPS, {"resourceVersion": "9"}, [*map(entry, range(len(data)), data)]),
        warnings=("careful",),
    )

    async def run(convert: Callable[[Sequence[StoreEntry]], bytes], entries: Sequence[StoreEntry]) -> bytes:
        return convert(entries)

    async def whole() -> HttpResponse:
        reply = encode_list(answer, view(form, pretty=pretty), now, run)
        assert reply.parts is not None
        return reply._replace(body=b"".join([part async for part in reply.parts]), parts=None)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(responsewriters, "_LONG_BYTES", 200)
        assert asyncio.run(whole()) == encode_response(answer, view(form, pretty=pretty), now)


def test_large_list_is_refused_in_the_form_of_an_object() -> None:
    """Before anything is sent."""
    answer = ApiResponse(body=StoredList(CONFIG_MAPS, {}, [entry()]))
    with pytest.raises(NotAcceptable):
        encode_list(answer, view(ResponseFormat(PARTIAL, "v1")), now, lambda *_: pytest.fail("nothing to convert"))
