"""Request bodies, decoded as Go decodes them, with Go's messages for what is invalid."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest, Invalid, UnsupportedMediaType
from pykubelet.apiserver.serializer.decoder import ExpectedKind, parse_json, parse_yaml, read_object, warnings_of
from pykubelet.apiserver.serializer.json_syntax import syntax_error

POD = ExpectedKind("v1", "Pod", "core.v1.Pod")
MAP = ExpectedKind("v1", "ConfigMap", "core.v1.ConfigMap")
WIDGET = ExpectedKind("example.com/v1", "Widget")
NOT_A_POD = 'Pod in version "v1" cannot be handled as a Pod: '
NO_POD = "the object provided is unrecognized (must be of type Pod): "
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", f"{NO_POD}couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (
            b"5",
            f"{NO_POD}couldn't get version/kind; json parse error: json: cannot unmarshal number into Go value of type",
        ),
        (
            b'{"kind":5}',
            f"{NO_POD}couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct",
        ),
        (
            b"x" * 40,
            f"{NO_POD}couldn't get version/kind; json parse error: invalid character 'x' looking for beginning",
        ),
        (
            b'{"spec":{"containers":{}}}',
            f"{NOT_A_POD}json: cannot unmarshal object into Go struct field PodSpec.spec.contai",
        ),
        (
            b'{"spec":{"priority":1.5}}',
            f"{NOT_A_POD}json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.pri",
        ),
        (
            b'{"spec":{"hostPID":"x"}}',
            f"{NOT_A_POD}json: cannot unmarshal string into Go struct field PodSpec.spec.hostPID o",
        ),
        (
            b'{"spec":{"containers":[{"args":[1]}]}}',
            f"{NOT_A_POD}json: cannot unmarshal number into Go struct field Containe",
        ),
        (
            b'{"metadata":{"labels":[]}}',
            f"{NOT_A_POD}json: cannot unmarshal array into Go struct field ObjectMeta.metadata.l",
        ),
        (
            b'{"metadata":{"creationTimestamp":"x"}}',
            f'{NOT_A_POD}parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse',
        ),
        (
            b'{"metadata":{"creationTimestamp":5}}',
            f"{NOT_A_POD}json: cannot unmarshal number into Go struct field ObjectMeta.",
        ),
        (
            b'{"kind":"Pod","apiVersion":"v1","spec":5}',
            f"{NOT_A_POD}json: cannot unmarshal number into Go struct field Pod.sp",
        ),
        (
            b'{"kind":"Event","apiVersion":"events.k8s.io/v1"}',
            'Event in version "v1" cannot be handled as a Pod: converting',
        ),
        (
            b'{"kind":"List","apiVersion":"v1"}',
            'List in version "v1" cannot be handled as a Pod: converting (v1.List) to (core.Pod): unknown conversion',
        ),
        (
            b'{"kind":"PodList","apiVersion":"v1"}',
            'PodList in version "v1" cannot be handled as a Pod: converting (v1.PodList) to (core.Pod)',
        ),
        (b'{"kind":"Pod","apiVersion":"a/b/c"}', f"{NO_POD}unexpected GroupVersion string: a/b/c ("),
    ],
)
def test_body_that_is_no_pod_is_refused_in_go_s_words(body: bytes, message: str) -> None:
    """The message names value, field and type."""
    with pytest.raises(BadRequest) as refused:
        read_object(body, "application/json", POD)
    assert refused.value.message[: len(message)] == message


def test_kind_may_be_left_out_but_must_not_be_another() -> None:
    """A custom resource must state its kind."""
    assert read_object(b"{}", "", POD).document == {"kind": "Pod", "apiVersion": "v1", "metadata": {}}
    assert read_object(b"null", "", MAP).document["kind"] == "ConfigMap"
    event = ExpectedKind("v1", "Event", "core.v1.Event")
    with pytest.raises(
        BadRequest, match=r"the API version in the data \(events.k8s.io/v1\) does not match the expected"
    ):
        read_object(b'{"kind":"Event","apiVersion":"events.k8s.io/v1"}', "", event)
    with pytest.raises(BadRequest, match=r"Object 'Kind' is missing in '\{\}'"):
        read_object(b"{}", "", WIDGET)
    with pytest.raises(BadRequest, match="the API version in the data"):
        read_object(b'{"kind":"Widget","apiVersion":"example.com/v2"}', "", WIDGET)
    other = b'{"kind":"Gadget","apiVersion":"example.com/v1","metadata":{"name":"a"}}'
    with pytest.raises(Invalid) as refused:
        read_object(other, "", WIDGET)
    assert refused.value.message == 'Gadget.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget'


@pytest.mark.parametrize(
    ("kind", "accepted"), [(POD, "application/vnd.kubernetes.protobuf"), (WIDGET, "application/yaml")]
)
def test_unknown_content_type_is_refused_with_those_that_are_known(kind: ExpectedKind, accepted: str) -> None:
    """Protobuf is for built-in kinds only."""
    with pytest.raises(UnsupportedMediaType) as refused:
        read_object(b"{}", "text/csv", kind)
    assert refused.value.message.endswith(accepted)


def test_yaml_is_read_as_well_as_json() -> None:
    """It gives the same problems, duplicate fields included."""
    body = b"kind: Pod\nmetadata: {name: a, name: b}\nspec: {foo: 1}\n"
    decoded = read_object(body, "application/yaml; charset=utf-8", POD)
    assert decoded.document["metadata"] == {"name": "b"}
    assert decoded.problems == ['unknown field "spec.foo"', 'duplicate field "metadata.name"']
    assert parse_yaml(b"") == (None, [])
    with pytest.raises(BadRequest, match="error converting YAML to JSON: yaml: "):
        read_object(b"a: [", "application/yaml", POD)


def test_problems_are_warnings_errors_or_nothing() -> None:
    """The fieldValidation of the request decides."""
    problems = ['unknown field "a"', 'unknown field "b"']
    assert warnings_of(problems, "Warn", POD) == tuple(problems)
    assert warnings_of(problems, "Ignore", POD) == warnings_of([], "Strict", POD) == ()
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "a", unknown field "b"'):
        warnings_of(problems, "Strict", POD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "unexpected end of JSON input"),
        (b"{]", "invalid character ']' looking for beginning of object key string"),
        (b'{"a"}', "invalid character '}' after object key"),
        (b'{"a":1 "b"', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"1 2", "invalid character '2' after top-level value"),
        (b"01", "invalid character '1' after top-level value"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"trux", "invalid character 'x' in literal true (expecting 'e')"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u00x"', "invalid character 'x' in \\u hexadecimal character escape"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
        (b"\x81", "invalid character '\\u0081' looking for beginning of value"),
        (b"[" * 10_001, "invalid character '[' exceeded max depth"),
    ],
)
def test_syntax_errors_are_go_s(text: bytes, message: str) -> None:
    """The messages are Go's, word for word."""
    assert syntax_error(text) == message


@given(st.binary(max_size=20) | st.text(alphabet='{}[]",:0123456789.eE+-tfnrualsu\\ x', max_size=20).map(str.encode))
def test_syntax_is_judged_as_by_any_json_reader(text: bytes) -> None:
    """A text has no error exactly if Python reads it, without Python's extra constants."""

    def refuse(name: str) -> Any:
        raise ValueError(name)

    try:
        # Invalid UTF-8 within strings does not matter.
        json.loads(text.decode("latin-1"), parse_constant=refuse)
        is_json = True
    except ValueError:
        is_json = False
    assert (syntax_error(text) is None) == is_json


@given(JSON_VALUES)
def test_any_value_is_an_object_of_the_kind_or_refused(value: Any) -> None:
    """Any JSON value gives one or the other."""
    body = json.dumps(value).encode()
    assert parse_json(body).duplicates == []
    for expected in (POD, WIDGET):
        try:
            document = read_object(body, "application/json", expected).document
        except BadRequest:
            continue
        assert (document["kind"], document["apiVersion"]) == (expected.kind, expected.api_version)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", '"', "\\"]), st.integers(0, 3)), max_size=5))
def test_repeated_keys_are_found_however_they_are_written(pairs: list[tuple[str, int]]) -> None:
    """The last value counts."""
    text = "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in pairs) + "}"
    parsed = parse_json(text.encode())
    assert parsed.value == dict(pairs)
    keys = [key for key, _ in pairs]
    assert set(parsed.duplicates) == {key for key in keys if keys.count(key) > 1}


def test_problems_are_reported_in_the_order_of_the_text() -> None:
    """Unknown and duplicate fields are mixed; content and repetitions of an unknown field are not checked."""
    body = (
        b'{"metadata":{"name":"a","name":"b"},"spec":{"foo":{"x":1,"x":2},"foo":3,"containers":[{"name":"c","name":"d",'
        b'"Image":""}]},"kind":"Pod","kind":"Pod","bar":1}'
    )
    assert read_object(body, "application/json", POD).problems == [
        'duplicate field "metadata.name"',
        'unknown field "spec.foo"',
        'duplicate field "spec.containers[0].name"',
        'unknown field "spec.containers[0].Image"',
        'duplicate field "kind"',
        'unknown field "bar"',
    ]
    widget = b'{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"foo":1},"spec":{"a":1,"a":2}}'
    assert read_object(widget, "", WIDGET).problems == [
        'duplicate field "spec.a"',
        'unknown field "metadata.foo"',
    ]


def test_very_many_unknown_and_repeated_fields_are_found_quickly() -> None:
    """One body must not block the server for other requests."""
    fields = b",".join(b'"k%d":1' % number for number in range(30_000))
    body = b'{"kind":"Pod","apiVersion":"v1","z":1,"z":2,' + fields + b"}"
    assert len(read_object(body, "application/json", POD).problems) >= 100
