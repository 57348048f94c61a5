"""Reading YAML: go-yaml's meanings, exact positions, and resistance to hostile text."""

import json
import struct
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.yaml import parser, read
from pykubelet.api.yaml.parser import YamlError
from pykubelet.api.yaml.read import YamlDocument, read_stream, read_yaml
from pykubelet.api.yaml.scalars import as_key
from pykubelet.api.yaml.write import to_yaml

laws = settings(max_examples=150, deadline=None)


def error_of(text: str | bytes, **options: Any) -> YamlError:
    with pytest.raises(YamlError) as raised:
        read_yaml(text.encode() if isinstance(text, str) else text, **options)
    return raised.value


def only(text: str) -> YamlDocument:
    (document,), errors = read_stream(text.encode())
    assert errors == []
    return document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", False),
        ("On", True),
        ("nO", "nO"),
        ("014", 12),
        ("0o14", 12),
        ("0b101", 5),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1e3", 1000),
        ("089", 89),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("=", "="),
        ("~", None),
        ("12345e67", 12345e67),
        ("8.0", 8),
        ("1.5", 1.5),
        ("18446744073709551615", 18446744073709551615.0),
        ("1.2345678901234567e18", 1234567890123456800),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("!!float 1", 1),
        ("!!binary aGk=", "hi"),
        ("!!binary /w==", "\ufffd"),
        ("'yes'", "yes"),
        ("{y: 1, 1e3: 2, 0x10: 3, 1.10: 4}", {"true": 1, "1000": 2, "16": 3, "1.1": 4}),
        ("{<<: {a: 1, b: 1}, a: 2}", {"a": 2, "b": 1}),
        ("{a: 2, <<: {a: 1}}", {"a": 1}),
        ("{<<: [{a: 1}, {a: 2, b: 2}]}", {"a": 1, "b": 2}),
        ("[&a {x: [1]}, *a]", [{"x": [1]}, {"x": [1]}]),
        ("{a: 1, a: 2}", {"a": 2}),
        ("&a [&a x, *a]", ["x", "x"]),
        ("[&a 014, *a, {*a : 1}]", [12, 12, {"12": 1}]),
        ("", None),
        ("# nothing", None),
    ],
)
def test_text_is_read_as_go_yaml_reads_it(text: str, value: Any) -> None:
    """Value and type agree; tests/real compares many more cases with kubectl."""
    found = read_yaml(text.encode())
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a: 1\nb: 2\nc: d: e\n", 3, 5, "mapping values are not allowed in this context"),
        ("a:\n\tb: 1\n", 2, 1, "found character that cannot start any token"),
        ("a: [1\nb: 2\n", 2, 2, "did not find expected ',' or ']'"),
        ("a: 1\nb: *x\n", 2, 4, "unknown anchor 'x' referenced"),
        ("a: &x\n- *x\n", 2, 3, "anchor 'x' value contains itself"),
        ("a: 1\n~: 1\n", 2, 1, "a map key cannot be null"),
        ("? [1]\n: 1\n", 1, 3, "invalid map key: it is an object or a list"),
        ("- &a [1]\n- {*a : 1}\n", 2, 4, "invalid map key: it is an object or a list"),
        ("a: .inf\n", 1, 4, ".inf cannot be represented in JSON"),
        ("{&a .inf: 1, b: *a}\n", 1, 17, ".inf cannot be represented in JSON"),
        ("a: !!int x\n", 1, 4, "cannot decode !!str `x` as a !!int"),
        ("- 18446744073709551615: 1\n", 1, 3, "the map key 18446744073709551615 is too large for an integer"),
        ("<<: 1\n", 1, 5, "map merge requires map or sequence of maps as the value"),
        ("a: b\n---\nc: d\n", 3, 1, "expected one document, found a second"),
        ("a: 1\nb: \x01\n", 2, 4, "control characters are not allowed"),
        (b"a: 1\nb: \xff\n", 2, 4, "invalid leading UTF-8 octet"),
        ("a: !%ED%A0%80 x\n", 0, 0, "the text cannot be parsed"),
    ],
)
def test_error_says_what_and_where(text: str | bytes, line: int, column: int, message: str) -> None:
    """Positions count from 1; messages are those of libyaml or go-yaml where these have one."""
    error = error_of(text)
    assert (error.line, error.column) == (line, column)
    assert error.message.startswith(message)
    assert str(error).startswith(f"yaml: line {line}: {message}" if line else f"yaml: {message}")


def test_strict_reading_refuses_a_repeated_key() -> None:
    """The error is at the second key and names the first; overriding a merged key is allowed."""
    error = error_of("a:\n  b: 1\n  c: 2\n  b: 3\n", strict=True)
    assert (error.line, error.column, error.message) == (4, 3, 'key "b" is already set at line 2')
    assert read_yaml(b"{<<: {a: 1}, a: 2}", strict=True) == {"a": 2}
    assert error_of('{"a": 1, "a": 2}', strict=True).column == 10
    assert (
        error_of('{"\\ud83d\\ude00": 1, "\\ud83d\\ude00": 2}', strict=True).message == "a key is already set at line 1"
    )


def test_large_text_is_refused_by_its_size() -> None:
    """The caller sets the limit."""
    assert error_of("a: 1", max_bytes=3).message == "the text has 4 bytes, more than 3"


BOMB = "".join(f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}" if n else "lol"] * 9) + "]\n" for n in range(9))
CHAIN = "".join(f"- &a{n} {'[' * 60}{f'*a{n - 1}' if n else 'x'}{']' * 60}\n" for n in range(40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(BOMB, "document contains excessive aliasing", id="alias bomb"),
        pytest.param(f"- &a {'x' * 11_000}\n" + "- *a\n" * 1000, "document contains excessive", id="long scalar"),
        pytest.param(f"- &a [&b {'x' * 99}]\n" + "- {*b : *a}\n" * 60_000, "document contains", id="its key, too"),
        pytest.param(CHAIN, "nested more than 100 levels deep", id="deep through aliases"),
        pytest.param("[" * 200_000, "nested more than 100 levels deep", id="deep lists"),
        pytest.param("[" * 101 + "]" * 101, "nested more than 100 levels deep", id="just too deep"),
        pytest.param("- " * 200_000, "nested more than 100 levels deep", id="deep block lists"),
        pytest.param("? " * 200_000, "invalid map key", id="deep keys"),
        pytest.param("{a: " * 200_000, "nested more than 100 levels deep", id="deep maps"),
        pytest.param('{"a":' * 200_000, "nested more than 100 levels deep", id="deep JSON without an end"),
        pytest.param('{"a":' + "[" * 200_000 + "]" * 200_000 + "}", "nested more than 100", id="deep JSON"),
        pytest.param('{"a":' + "[" * 200 + "]" * 200 + "}", "nested more than 100", id="too deep JSON"),
        pytest.param('{"a": 1e999}', "the number 1e999 is too large", id="JSON number"),
        pytest.param('{"a": ' + "9" * 5000 + "}", "the number 99999999999999999999 is too large", id="JSON digits"),
        pytest.param("a: \0", "control characters are not allowed", id="NUL"),
        pytest.param("a: 'b", "found unexpected end of stream", id="open quote"),
    ],
)
def test_hostile_text_is_refused(text: str, message: str) -> None:
    """No text crashes the reader or makes it slow."""
    error = error_of(text)
    assert error.message.startswith(message)


def test_nodes_of_a_yaml_stream_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scalars, collections and aliases of all documents count alike."""
    monkeypatch.setattr(parser, "MAX_NODES", 100)
    assert len(read_yaml(b"[" + b"1," * 99 + b"]")) == 99
    assert error_of("[" + "1," * 100 + "]").message == "the text has more than 100 nodes"
    assert error_of("[" + "[]," * 100 + "]").message == "the text has more than 100 nodes"
    assert error_of("[&a [1, 2, 3], " + "*a, " * 25 + "]").message == "the text has more than 100 nodes"
    _, errors = read_stream(b"---\n[1, 2, 3]\n" * 50)
    assert {error.message for error in errors} == {"the text has more than 100 nodes"}


def test_nodes_of_json_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and values of all objects count, as in YAML."""
    monkeypatch.setattr(read, "MAX_NODES", 10)
    assert read_yaml(b'{"a": [1, 2, {}, {"b": 1}]}')
    assert error_of('{"a": [1, 2, {}, {"b": 1, "c": 2}]}').message == "the text has more than 10 nodes"
    assert error_of('{"a": 1}' * 4).message == "the text has more than 10 nodes"


@pytest.mark.parametrize("text", ["--- a\n" * 4, "{} {} {} {}"])
def test_documents_of_a_stream_are_limited(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In YAML and in JSON."""
    monkeypatch.setattr(read, "MAX_DOCUMENTS", 3)
    assert [error.message for error in read_stream(text.encode()).errors] == ["the text has more than 3 documents"]


def test_depth_of_a_hundred_is_read() -> None:
    """The nesting limit itself is allowed, in YAML and in JSON."""
    assert read_yaml(b"[" * 100 + b"]" * 100)
    assert read_yaml(b'{"a":' + b"[" * 99 + b"]" * 99 + b"}")


@pytest.mark.parametrize(
    "number", ["9" * 100_000, "0x" + "f" * 100_000, "0" * 100_000, "-" + "1_" * 100_000, "1e" + "9" * 9999]
)
def test_huge_number_is_a_string_or_a_float(number: str) -> None:
    """Go has no numbers of that size."""
    assert read_yaml(number.encode()) in (number, 0)


@pytest.mark.parametrize(
    "text", ["a: 1\r\nb:\r\n- x\r\n", "\ufeffa: 1\nb:\n- x\n", "a: 1\rb:\r- x\r", "%YAML 1.1\n---\na: 1\nb: [x]\n...\n"]
)
def test_line_ends_byte_order_marks_and_directives_are_accepted(text: str) -> None:
    assert read_yaml(text.encode()) == {"a": 1, "b": ["x"]}
    assert read_yaml("a: é\n".encode("utf-16")) == {"a": "é"}


def test_broken_document_does_not_hide_the_others() -> None:
    """Reading continues at the next separator, with the right line numbers."""
    text = "a: 1\n---\nb: c: d\ne: f\n---\ng: *x\n---\nh: 'open\n---\ni: 2\n"
    documents, errors = read_stream(text.encode())
    assert [(document.value, document.at) for document in documents] == [({"a": 1}, (1, 1)), ({"i": 2}, (10, 1))]
    assert [(error.line, error.column) for error in errors] == [(3, 5), (6, 4), (9, 1)]
    assert errors[2].message.endswith("(while scanning a quoted scalar from line 8)")
    assert documents[1].key_position(("i",)) == (10, 1)


def test_reading_gives_up_after_twenty_broken_documents() -> None:
    documents, errors = read_stream(b"--- @\n" * 1000)
    assert documents == []
    assert [error.line for error in errors] == list(range(1, 21))


def test_positions_are_those_of_keys_and_values() -> None:
    """Fields of aliases and merges have the positions of the original text."""
    document = only("a:\n  b: [1,\n    {c: 2}]\nd: &x {e: 1}\nf:\n  <<: *x\n  g: *x\n")
    assert document.at == (1, 1)
    assert document.key_position(("a", "b")) == (2, 3)
    assert document.value_position(("a", "b")) == (2, 6)
    assert document.key_position(("a", "b", 1)) == (3, 5)
    assert document.value_position(("a", "b", 1, "c")) == (3, 9)
    assert document.key_position(("f", "e")) == (4, 8)
    assert document.value_position(("f", "g")) == (7, 6)
    assert document.key_position(("f", "g", "e")) == (4, 8)
    assert document.value_position(("a", "missing", "deeper")) == (2, 3)


def test_positions_of_merged_lists_follow_the_merge() -> None:
    """The first of several sources wins, for positions as for values."""
    document = only("- &x {a: 1,\n    b: 2}\n- <<: [*x, {a: 3,\n    c: 4}]\n  d: ~\n")
    assert document.value[1] == {"a": 1, "b": 2, "c": 4, "d": None}
    assert document.key_position((1, "a")) == (1, 7)
    assert document.key_position((1, "c")) == (4, 5)
    assert document.value_position((1, "d")) == (5, 6)


def test_positions_can_be_requested_in_any_document_order() -> None:
    documents, _ = read_stream(b"a: 1\n---\nb: 1\n---\nc: 1\n")
    assert documents[2].key_position(("c",)) == (5, 1)
    assert documents[0].key_position(("a",)) == (1, 1)
    assert documents[1].key_position(("b",)) == (3, 1)
    assert documents[0].source.find(3, ("d",)) == (None, None)


def test_positions_in_json_that_is_not_yaml_are_that_of_the_document() -> None:
    """libyaml does not accept surrogate pairs, so that only the document's own position is known."""
    (document,), _ = read_stream(b'\n {"a": "\\ud83d\\ude00",\n "b": 1}')
    assert document.value == {"a": "😀", "b": 1}
    assert document.key_position(("b",)) == (2, 2)


def test_positions_of_json_are_those_of_its_text() -> None:
    """Also when an object starts in the middle of a line."""
    (first, second), _ = read_stream(b'{"a": 1} {"b":\n  {"c": 2}}\n')
    assert (first.at, second.at) == ((1, 1), (1, 10))
    assert second.key_position(("b",)) == (1, 11)
    assert second.value_position(("b", "c")) == (2, 9)


def test_json_is_read_like_go() -> None:
    """Floats stay floats, large ints become floats, lone surrogates are replaced; invalid JSON is read as YAML."""
    text = '{"a": [1, 1.0, 1e2, 9223372036854775808, "\\ud800x", "\\ud83d\\ude00"], "\\udc00": "\\/"}'
    found = read_yaml(text.encode())
    assert found == {"a": [1, 1.0, 100.0, 2.0**63, "\ufffdx", "😀"], "\ufffd": "/"}
    assert [type(item) for item in found["a"]] == [int, float, float, float, str, str]
    assert read_yaml(b"{a: yes, 'b': NaN, }") == {"a": True, "b": "NaN"}
    assert read_yaml(b'{"a": NaN}') == {"a": "NaN"}
    assert [document.value for document in read_stream(b'{} 5 "a" [null]').documents] == [{}, 5, "a", [None]]
    assert error_of(b'{"a": "\xff"}').message == "invalid leading UTF-8 octet"


def test_pure_python_parser_gives_the_results_of_the_c_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "_LOADER", yaml.SafeLoader)
    assert read_yaml(b"a: [no, ! 1, !!str 2, &x {b: 1}, *x]\n<<: {c: 014}") == {
        "a": [False, "1", "2", {"b": 1}, {"b": 1}],
        "c": 12,
    }
    assert str(error_of("a: b: c")) == "yaml: line 1: mapping values are not allowed here"
    assert error_of(b"a: \xff").message
    assert error_of("[" * 10_000).message == "nested more than 100 levels deep"


@laws
@given(
    st.text(alphabet="ab:-?[]{},&*!|>'\"%@`#~<.\\ \t\n0123xeo_", max_size=60).map(str.encode) | st.binary(max_size=60)
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Every value read is valid JSON and survives a round trip through to_yaml."""
    documents, errors = read_stream(data)
    for document in documents:
        assert read_yaml(to_yaml(document.value).encode()) == document.value
        assert json.loads(json.dumps(document.value)) == document.value
    for error in errors:
        assert isinstance(error, YamlError)


@laws
@given(
    st.lists(
        st.sampled_from(
            ["{}", '{"a":', "}", "[", "]", ",", "1", '"a"', '"\\ud800"', "null", " ", "\n", "1e9", "---\n"]
        ),
        max_size=12,
    )
)
def test_any_text_like_json_is_read_or_refused(parts: list[str]) -> None:
    """Either the JSON reader or the YAML reader handles it."""
    documents, errors = read_stream(("{" + "".join(parts)).encode())
    assert documents or errors


@laws
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_key_means_the_same_single(number: float) -> None:
    """Nine digits identify any single-precision number."""
    text = as_key(number)
    assert struct.pack("f", float(text)) == struct.pack("f", number)
    assert len(text.partition("e")[0].replace(".", "").strip("-0")) <= 9


KEYS = st.text(alphabet="abcxyz", min_size=1, max_size=4)
TREES = st.recursive(
    st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(below for step, item in items for below in paths(item, (*path, step)))]


@laws
@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=4))
def test_every_position_points_at_its_key_or_number(tree: dict[str, Any]) -> None:
    lines = to_yaml(tree).splitlines()
    document = only("\n".join(lines))
    for path in paths(tree)[1:]:
        value: Any = tree
        for step in path:
            value = value[step]
        line, column = document.key_position(path)
        if isinstance(path[-1], str):
            assert lines[line - 1][column - 1 :].startswith((f"{path[-1]}:", f'"{path[-1]}":'))
        if isinstance(value, int):
            line, column = document.value_position(path)
            assert lines[line - 1][column - 1 :] == str(value)
