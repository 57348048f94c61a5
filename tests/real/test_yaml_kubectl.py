"""Compares our YAML reader and writer with kubectl's, spelling by spelling.

`kubectl annotate --local` reads a file and prints what it understood, without any server.
"""

import json
import shutil
import subprocess
from typing import Any

import pytest

from pykubelet.api.yaml.parser import YamlError
from pykubelet.api.yaml.read import read_stream, read_yaml
from pykubelet.api.yaml.write import to_yaml
from requirements import missing

HEAD = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n"

SCALARS = """
y Y yes Yes YES yEs n N no No NO true True TRUE tRUE false on On ON off Off OFF ~ null Null NULL nULL
0 -0 +0 00 -00 014 0777 089 08 09.5 0o14 0O14 0o8 0b101 0B1 -0b101 0b2 0b 0b+1 0b-1 -0b+1 0x1F 0X1f +0x1F -0x1F 0x 0x_1 0xZ
1_000 1__0 _1 1_ 1_000.5 +1 -1 + . 1. .5 -.5 +.5e3 .5_0 ._5 .e3 1e3 1E3 1e+3 1e-3 1e 0e0 12345e67 1e20 1e21 1e22 1e400 1e-400 .5e400
0.0000001 0.000001 1.5 -0.0 8.0 inf +inf -inf nan .5.5 1.2.3 0x1p4
9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 +18446744073709551615 18446744073709551615
18446744073709551616 123456789012345678901234567890 0x7fffffffffffffff 0xffffffffffffffff 0x1FFFFFFFFFFFFFFFF
-0xffffffffffffffff 1.2345678901234567e18 9007199254740993 077777777777777777777777
1:30 12:30:45 2001-01-01 2001-01-01T00:00:00Z 2001-1-1 = << 1,000 10Gi 100m v1 a#c -a ?a :a http://x:80/y
"""
SPELLINGS = (
    *SCALARS.split(),
    "",
    "''",
    '""',
    "'12'",
    '"yes"',
    "! 12",
    "! '12'",
    "!!str 12",
    "!!str yes",
    "!!str ~",
    "!!str",
    "!!int '12'",
    "!!int 0x10",
    "!!float 1",
    "!!float .5",
    "!!bool yes",
    "!!bool 'off'",
    "!!null ~",
    "!!null ''",
    "!!binary aGk=",
    "!!binary /+8=",
    "!!binary",
    "!!timestamp 2001-01-01",
    "!!timestamp 2001-1-1 1:2:3.5",
    "!!timestamp 2001-01-01T00:00:00+01:00",
    "!foo 12",
    "!!foo 12",
    "!<tag:yaml.org,2002:str> 1",
    "!!set {a, b}",
    "!!omap [a: 1]",
    "!!str {a: 1}",
    "{a:b}",
    "{a: b:c}",
    "[http://x:80, a:b]",
    "{a: }",
    "{? a : b}",
    "[1,]",
    "{y: 1}",
    "{off: 1, 0x10: 2, 1e3: 3, 014: 4}",
    "{1.1: 1, 1e6: 2, 123456789.5: 3, 1e39: 4, -1e39: 5, .nan: 6, 100000.0: 7, 0.00001: 8, 1.0e-5: 9, -0.0: 10}",
    "{16777217.0: 1, 3.4028236e38: 2, 1e-46: 3, 1.262177448353619e-29: 4}",
    "{2001-01-01: 1, !!binary aGk=: 2}",
    "{a: 1, <<: {a: 2}}",
    "{<<: {a: 2}, a: 1}",
    "{<<: [{a: 1}, {a: 2, b: 3}]}",
    "{<<: {a: 1, <<: {a: 2}}, <<: {c: 3}}",
    "{! '<<': {a: 1}}",
    "{'<<': {a: 1}}",
    "{!!merge <<: {a: 1}}",
    "{!!str <<: {a: 1}}",
    "[&a {x: 1}, {<<: *a, y: 2}, {<<: [*a]}]",
    "[&a 1e3, *a, {*a : x}]",
    "[&a x, &a z, *a]",
    "&a [&a x, *a]",
    "{a: 1, a: 2}",
    '"\\x41 \\u00e9 \\U0001F600 \\e \\0 \\_ \\N \\L \\P"',
    '"a\\\n  b\n\n  c"',
    "'it''s'",
    "a\n  b\n\n  c",
    "|\n  a\n   b\n\n",
    "|+\n  a\n\n",
    "|-\n  a\n\tb\n".replace("\n\t", "\n  \t"),
    "|2\n   a\n",
    ">\n  a\n  b\n\n  c\n   d\n",
    "\n- 1\n- - 2\n  - 3",
    "\n  ? a\n  : b",
    "a #c",
    "\ta",
)

REFUSED = (
    "-",
    ".inf",
    "-.Inf",
    ".nan",
    "{~: k}",
    "{18446744073709551615: k}",
    "{[a]: k}",
    "{{a: 1}: k}",
    "[&a [1], {*a : k}]",
    "{<<: 1}",
    "{<<: ~}",
    "{<<: [1]}",
    "[&a [{b: 1}], {<<: *a}]",
    "!!int 1.5",
    "!!int",
    "!!int 2001-01-01",
    "!!float 18446744073709551615",
    "!!bool x",
    "!!null x",
    "!!timestamp x",
    "!!timestamp 2001-02-30",
    "!!binary a",
    "!!binary 'a==='",
    "&a [*a]",
    "*a",
    "[,]",
    "@a",
    "`a",
    "%a",
    "a: b",
    "a:",
    "[a",
    "{a: 1",
    "'a",
    '"\\q"',
    '"\\ud800"',
    "|\n a\n  b\nc",
    "a\n\tb: c",
    "\x01",
)

DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"a": ["y", "1e3", "089", "0o14", "12345e67", "1_000", "2001-01-01", "1:30", "=", "<<", "~", "null", "", " a", "a "]},
    {"a": ["-", "-c", "--flag=1", "---", "...", "?", "? a", ": a", "a:", "a: b", "a #b", "#a", "*a", "&a", "!a", "%a", "@a"]},
    {"a": ["|", ">", "'a'", '"a"', "[a]", "{a}", "a, b", "`a`", "é", "\u2028", "\ufeff", "\x85", "\x00", "\x7f", "\U0001f600"]},
    {"a": ["l1\nl2\n", "l1\nl2", "\nl1", " l1\nl2", "l1\n\n", "l1\n  \nl2", "l1\n  ", "\tl1\n", "l1\n\tl2", "a\r\nb\r\n"]},
    {"a": [1, -1, 0, 1.5, 1e300, -1e-300, 1e22, 2**63 - 1, -(2**63), True, False, None, {}, [], [[]], [{}], [[1, [2]], {"b": []}]]},
    {"a": {"y": 1, "1": 2, "1e3": 3, "<<": 4, "~": 5, "": 6, "a b": 7, "x" * 1100: {"b": [1]}, "l1\nl2": 8, "-": 9, "?": 10}},
)  # fmt: skip


def kubectl_reads(text: str) -> dict[str, Any] | None:
    """A manifest as kubectl reads it, without the annotation that it adds; None if kubectl rejects it."""
    program = shutil.which("kubectl")
    if program is None:
        missing("kubectl is not installed")
    command = [program, "annotate", "--local", "-f", "-", "z=1", "-o", "json"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False, timeout=15)
    if done.returncode:
        return None
    document: dict[str, Any] = json.loads(done.stdout, parse_int=go_number)
    document["metadata"] = {"name": "x"}
    return document


def go_number(digits: str) -> int | float:
    """Integers beyond 64 bits become floats, since kubectl writes large floats with all their digits."""
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else float(digits)


@pytest.fixture(scope="module")
def accepted() -> dict[str, Any]:
    """All spellings in one file, as kubectl reads them."""
    fields = (f"v{index}: {spelling}\n" for index, spelling in enumerate(SPELLINGS))
    document = kubectl_reads(HEAD + "".join(fields))
    assert document is not None
    return document


@pytest.mark.parametrize(("index", "spelling"), list(enumerate(SPELLINGS)), ids=repr)
def test_value_is_read_as_kubectl_reads_it(accepted: dict[str, Any], index: int, spelling: str) -> None:
    """The value and its type are the same."""
    ours = read_yaml(f"{HEAD}v{index}: {spelling}\n".encode())[f"v{index}"]
    assert repr(ours) == repr(accepted[f"v{index}"]) or ordered(ours) == ordered(accepted[f"v{index}"])


def ordered(value: Any) -> str:
    """The value as JSON, which keeps types but not the order of keys."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("spelling", REFUSED)
def test_value_is_refused_as_kubectl_refuses_it(spelling: str) -> None:
    """kubectl fails to read the value, and our reader raises YamlError."""
    text = f"{HEAD}v: {spelling}\n"
    assert kubectl_reads(text) is None
    with pytest.raises(YamlError):
        read_yaml(text.encode())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_written_document_is_read_back_by_kubectl(document: dict[str, Any]) -> None:
    """kubectl and our reader both get the document that was written."""
    whole = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, **document}
    text = to_yaml(whole)
    assert kubectl_reads(text) == whole
    assert read_yaml(text.encode()) == whole


@pytest.mark.parametrize(
    ("times", "levels"), [(2, 5), (10, 4), (10, 5), (10, 6), (100, 2), (100, 3), (9, 9)], ids=lambda count: f"{count}"
)
def test_aliases_are_expanded_as_far_as_kubectl_does(times: int, levels: int) -> None:
    """Documents with too many aliases are rejected, others are expanded to the same value."""
    lines = ["l0: &l0 [" + ", ".join("x" * times) + "]"]
    lines += [f"l{n}: &l{n} [" + ", ".join([f"*l{n - 1}"] * times) + "]" for n in range(1, levels)]
    text = HEAD + "\n".join(lines) + "\n"
    theirs, (documents, errors) = kubectl_reads(text), read_stream(text.encode())
    if theirs is None:
        assert [error.message for error in errors] == ["document contains excessive aliasing"]
    else:
        assert documents[0].value == theirs


def test_json_stream_is_read_as_kubectl_reads_it() -> None:
    """JSON is tried before YAML: a lone surrogate is replaced, and a large number is a float."""
    text = '{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "v": ["\\ud800", "\\/", 1e2, 9999999999999999999]}'
    assert kubectl_reads(text) == read_yaml(text.encode())
