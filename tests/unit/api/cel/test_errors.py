"""Errors of CEL expressions: those that do not compile, and those whose evaluation fails."""

import pytest

from pykubelet.api.cel.interpreter import InstantiationError, compile_expression
from pykubelet.api.cel.types import INT, STRING, list_of, map_of, object_type
from pykubelet.api.cel.values import CelError, ExpressionError

_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_SELF = object_type("selfType", {"a": INT, "s": STRING, "l": list_of(INT), "m": map_of(STRING, INT), "__if__": INT})

_PARSE = "network address parse error during conversion from string: "
_NO_NETWORK = f"{_PARSE}{_PARSE}netip.ParsePrefix("
_NO_TEXT = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps, was given "
)
_NO_SENSE = [
    (
        "self.l.transformMapEntry(i, v, v)",
        "1:25: found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), int)'",
    ),
    (
        "self.l.transformMap(i, v, v, 1)",
        "1:20: found no matching overload for '_?_:_' applied to '(int, map(dyn, dyn), map(dyn, dyn))'",
    ),
    ("timestamp(null)", "1:11: invalid timestamp argument"),
    ("", f"1:1: Syntax error: mismatched input '<EOF>' expecting {_OPERAND}"),
    ("1 +", f"1:4: Syntax error: mismatched input '<EOF>' expecting {_OPERAND}"),
    ("(1", "1:3: Syntax error: mismatched input '<EOF>' expecting ')'"),
    ("1 2", "1:3: Syntax error: mismatched input '2' expecting <EOF>"),
    ("self.", "1:6: Syntax error: mismatched input '<EOF>' expecting IDENTIFIER"),
    ("a ? b", "1:6: Syntax error: mismatched input '<EOF>' expecting ':'"),
    ("#", "1:1: Syntax error: token recognition error at: '#'"),
    ("if == 1", "1:1: reserved identifier: if"),
    ("9223372036854775808", "1:1: invalid int literal"),
    ("18446744073709551616u", "1:1: invalid uint literal"),
    ("1e999", "1:1: invalid double literal"),
    (r"'\ud800'", "1:1: invalid unicode code point"),
    (r"b'\u0041'", "1:1: unable to unescape string"),
    ("has(self)", "1:5: invalid argument to has() macro"),
    ("self.l.all(1, true)", "1:12: argument must be a simple name"),
    ("self.l.map(x.y, true)", "1:13: argument is not an identifier"),
    ("self.l.all(x, x, true)", "1:15: duplicate variable name: x"),
    ("self.l.all(__result__, true)", "1:12: iteration variable overwrites accumulator variable"),
    ("optional.of(1).optMap(1, 2)", "1:23: optMap() variable name must be a simple identifier"),
    ("nope", "1:1: undeclared reference to 'nope' (in container '')"),
    ("nope(1)", "1:5: undeclared reference to 'nope' (in container '')"),
    ("self.a.nope()", "1:12: undeclared reference to 'nope' (in container '')"),
    ("some.Thing{a: 1}", "1:11: undeclared reference to 'some.Thing' (in container '')"),
    ("self.b", "1:5: undefined field 'b'"),
    ("has(self.b)", "1:4: undefined field 'b'"),
    ("self.a.b", "1:7: type 'int' does not support field selection"),
    ("self.a + 'x'", "1:8: found no matching overload for '_+_' applied to '(int, string)'"),
    ("self.s.size(1)", "1:12: found no matching overload for 'size' applied to 'string.(int)'"),
    ("size(1)", "1:5: found no matching overload for 'size' applied to '(int)'"),
    ("self.a == self.s", "1:8: found no matching overload for '_==_' applied to '(int, string)'"),
    ("self.m[1]", "1:7: found no matching overload for '_[_]' applied to '(map(string, int), int)'"),
    ("self.a && true", "1:5: expected type 'bool' but found 'int'"),
    ("self.l.all(x, x)", "1:15: expected type 'bool' but found 'int'"),
    ("self.l.exists_one(x, x)", "1:18: found no matching overload for '_?_:_' applied to '(int, int, int)'"),
    ("self.l.filter(x, x)", "1:14: found no matching overload for '_?_:_' applied to '(int, list(dyn), list(dyn))'"),
    (
        "self.a.all(x, true)",
        "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
    ("true ? 1 : 'a'", "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
    ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
    ("{'a': 1, 'b': 'c'}", "1:15: expected type 'int' but found 'string'"),
    ("[?1]", "1:3: expected type 'optional_type(int)' but found 'int'"),
    ("duration('1 week')", "1:10: invalid duration argument"),
    ("timestamp('now')", "1:11: invalid timestamp argument"),
    ("timestamp(-62135596801)", "1:11: invalid timestamp argument"),
    ("self.s.matches('(')", "1:16: invalid matches argument"),
    ("self.s.matches('a++')", "1:16: invalid matches argument"),
    (
        "'%d'.format(['a'])",
        "1:14: error during formatting: decimal clause can only be used on integers, was given string",
    ),
    ("'%s'.format([])", "1:12: index 0 out of range"),
    ("'%q'.format([1])", '1:12: could not parse formatting clause: unrecognized formatting clause "q"'),
    ("'x'.format([1])", "1:11: too many arguments supplied to string.format (expected 0, got 1)"),
    ("authorizer.path('/')", "1:1: undeclared reference to 'authorizer' (in container '')"),
]
_FAILURES = [
    ("9223372036854775807 + self.a", "integer overflow"),
    ("-9223372036854775808 - self.a", "integer overflow"),
    ("9223372036854775807 * 2", "integer overflow"),
    ("-(-9223372036854775808)", "integer overflow"),
    ("-9223372036854775808 / -1", "integer overflow"),
    ("0u - 1u", "unsigned integer overflow"),
    ("1 / 0", "division by zero"),
    ("1 % 0", "modulus by zero"),
    ("int(1e19)", "integer overflow"),
    ("uint(-1)", "unsigned integer overflow"),
    ("int('x')", "type conversion error from 'string' to 'int'"),
    ("uint('-1')", "type conversion error from 'string' to 'uint'"),
    ("double('x')", "type conversion error from 'string' to 'double'"),
    ("bool('x')", "type conversion error from 'string' to 'bool'"),
    ("duration('1' + ' week')", "type conversion error from 'string' to 'google.protobuf.Duration'"),
    ("timestamp('n' + 'ow')", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
    ("string(b'\\xff')", "invalid UTF-8 in bytes, cannot convert to string"),
    ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
    ("duration('2562047h') + duration('2562047h')", "duration overflow"),
    ("timestamp(0).getHours('Nowhere/Land')", "unknown time zone Nowhere/Land"),
    ("timestamp(0).getHours('23:99')", 'strconv.Atoi: parsing "23:99": invalid syntax'),
    ("self.l[7]", "index out of bounds: 7"),
    ("self.l[-1]", "index out of bounds: -1"),
    ("[1][dyn('a')]", "unsupported index type 'string' in list"),
    ("[1][dyn(0.5)]", "unsupported index value 0.5 in list"),
    ("self.m['zz']", "no such key: zz"),
    ("self.m.zz", "no such key: zz"),
    ("{true: 1}[false]", "no such key: false"),
    ("dyn(1).a", "no such key: a"),
    ("dyn(1) + 'a'", "no such overload"),
    ("dyn(true) + 1", "no such overload: _+_"),
    ("dyn(1).size()", "no such overload: size(int)"),
    ("dyn(1) && true", "no such overload"),
    ("dyn(1) ? 1 : 2", "no such overload"),
    ("1 in dyn(1)", "no such overload"),
    ("dyn(1).all(x, true)", "no such overload"),
    ("dyn(1).all(k, v, true)", "no such overload"),
    ("[1].map(x, dyn(x), 1)", "no such overload"),
    ("[dyn('a'), dyn(1)].max()", "no such overload"),
    ("1.0 < double('NaN')", "NaN values cannot be ordered"),
    ("'abc'.charAt(4)", "index out of range: 4"),
    ("'abc'.indexOf('a', -1)", "index out of range: -1"),
    ("'abc'.lastIndexOf('a', -1)", "index out of range: -1"),
    ("'abc'.substring(4)", "index out of range: 4"),
    ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
    ("[dyn(1)].join()", "no such overload: join(list)"),
    ("self.s.matches('(' + self.s)", "error parsing regexp: missing closing ): `(text`"),
    (
        "self.s.find('(' + self.s)",
        "Illegal regex: error parsing regexp: missing closing ): `(text`",
    ),
    (
        "'%d'.format([dyn('a')])",
        "error during formatting: decimal clause can only be used on integers, was given string",
    ),
    (
        "('%' + '.').format([1])",
        "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
    ),
    ("('%' + '').format([1])", "unexpected end of string"),
    ("self.l.filter(x, false).min()", "min called on empty list"),
    ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
    ("[1].slice(1, 0)", "cannot slice(1, 0), start index must be less than or equal to end index"),
    ("[1].slice(-1, 0)", "cannot slice(-1, 0), negative indexes not supported"),
    ("dyn([1]).flatten(-1)", "level must be non-negative"),
    ("[dyn('a'), dyn(1)].sortBy(x, x)", "list elements must have the same type"),
    ("[1, 1].transformMapEntry(i, v, {v: i})", "insert failed: key 1 already exists"),
    ("optional.none().value()", "optional.none() dereference"),
    ("[?dyn(1)]", "cannot initialize optional list element from non-optional value 1"),
    ("url('../x')", 'URL parse error during conversion from string: parse "../x": invalid URI for request'),
    (
        "url('https://a:b:c/')",
        'URL parse error during conversion from string: parse "https://a:b:c/": invalid port ":c" after host',
    ),
    ("quantity('1K')", "unable to parse quantity's suffix"),
    ("quantity('0.5').asInteger()", "cannot convert value to integer"),
    (
        "ip('1.2.3')",
        'IP Address "1.2.3" parse error during conversion from string: ParseAddr("1.2.3"): IPv4 address too short',
    ),
    ("ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
    ("ip('fe80::1%eth0')", 'IP address "fe80::1%eth0" with zone value is not allowed'),
    ("semver('1.0')", "No Major.Minor.Patch elements found"),
    ("semver('1.0-rc', true)", "short version cannot contain PreRelease/Build meta data"),
]
_MORE_FAILURES = [
    ("-9223372036854775808 % -1", "integer overflow"),
    ("uint(-1.5)", "unsigned integer overflow"),
    ("int(18446744073709551615u)", "integer overflow"),
    ("double('1e999')", "type conversion error from 'string' to 'double'"),
    ("duration(self.a)", "type conversion error from 'int' to 'google.protobuf.Duration'"),
    ("timestamp(self.a - 99999999999999)", "timestamp overflow"),
    ("timestamp('0001-01-01T00:00:00' + '+01:00')", "timestamp overflow"),
    ("timestamp('0001-01-01T00:00:00Z').getHours('-01:00')", "timestamp overflow"),
    ("dyn([1]) in {'a': 1}", "no such overload"),
    ("{dyn([1]): 1}", "unsupported key type"),
    ("[1].transformMapEntry(i, v, dyn(v))", "no such overload"),
    ("[dyn(1), dyn('a')].sum()", "no such overload"),
    ("[dyn('b'), dyn(1)].join()", "join: invalid input: 1"),
    ("optional.unwrap([dyn(1)])", "no such overload: optional.unwrap(list)"),
    ("[dyn(optional.of(1)), dyn(1)].unwrapOpt()", "value 1 is not optional"),
    ("'%s %s'.format(dyn([1]))", "index 1 out of range"),
    ("'%s'.format([dyn(url('/'))])", f"error during formatting: {_NO_TEXT}kubernetes.URL"),
    ("ip('x')", 'IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP'),
    ("cidr('10.0.0.0')", f"{_NO_NETWORK}\"10.0.0.0\"): no '/'"),
    ("cidr('10.0.0/8')", f'{_NO_NETWORK}"10.0.0/8"): ParseAddr("10.0.0"): IPv4 address too short'),
    ("cidr('10.0.0.0/x')", f'{_NO_NETWORK}"10.0.0.0/x"): bad bits after slash: "x"'),
    ("cidr('10.0.0.0/33')", f'{_NO_NETWORK}"10.0.0.0/33"): prefix length out of range'),
    ("cidr('fe80::1%a/64')", f'{_NO_NETWORK}"fe80::1%a/64"): IPv6 zones cannot be present in a prefix'),
    ("cidr('::ffff:1.2.3.4/96')", f'{_PARSE}IPv4-mapped IPv6 address "::ffff:1.2.3.4/96" is not allowed'),
    ("semver('')", "Version string empty"),
    ("semver('1..0')", 'strconv.ParseUint: parsing "": invalid syntax'),
    ("semver('1.x.0')", 'Invalid character(s) found in minor number "x"'),
    ("semver('1.01.0')", 'Minor number must not contain leading zeroes "01"'),
    ("semver('1.0.99999999999999999999')", 'strconv.ParseUint: parsing "99999999999999999999": value out of range'),
    ("semver('1.0.0-')", "Prerelease is empty"),
    ("semver('1.0.0-a.$')", 'Invalid character(s) found in prerelease "$"'),
    ("semver('1.0.0-01')", 'Numeric PreRelease version must not contain leading zeroes "01"'),
    ("semver('1.0.0+')", "Build meta data is empty"),
    ("semver('1.0.0+$')", 'Invalid character(s) found in build meta data "$"'),
]
_ALL_FAILURES = [*_FAILURES, *_MORE_FAILURES]


def _run(source: str, steps: int = 100_000) -> object:
    values = ({"a": 1, "s": "text", "l": [1, 2], "m": {"k": 1}},)
    return compile_expression(source, {"self": _SELF}).run(values, steps)


@pytest.mark.parametrize(("source", "wanted"), _NO_SENSE, ids=[source or "nothing" for source, _ in _NO_SENSE])
def test_invalid_expression_is_refused_with_the_position(source: str, wanted: str) -> None:
    """The first line is the error; the expression follows, with a mark below the position."""
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source, {"self": _SELF})
    first, shown, mark = str(caught.value).split("\n")[:3]
    assert first == f"ERROR: <input>:{wanted}"
    assert (shown, mark.strip(" |.^")) == (f" | {source}", "")
    assert len(mark) - 3 == int(wanted.split(":")[1])


@pytest.mark.parametrize(("source", "wanted"), _ALL_FAILURES, ids=[source for source, _ in _ALL_FAILURES])
def test_failed_evaluation_gives_upstreams_message(source: str, wanted: str) -> None:
    """A failure is a value, not an exception."""
    found = _run(source)
    assert isinstance(found, tuple)
    assert isinstance(found[0], CelError)
    assert found[0].message == wanted


def test_all_errors_are_shown_in_the_order_of_their_positions() -> None:
    """Each error shows its line; the mark is padded with wide dots below characters beyond ASCII."""
    with pytest.raises(ExpressionError) as caught:
        compile_expression("'\u00e9' == nope ||\n\tother", {"self": _SELF})
    assert str(caught.value).split("\n") == [
        "ERROR: <input>:1:8: undeclared reference to 'nope' (in container '')",
        " | '\u00e9' == nope ||",
        " | .\uff0e.....^",
        "ERROR: <input>:2:2: undeclared reference to 'other' (in container '')",
        " |  other",
        " | .^",
    ]


@pytest.mark.parametrize(
    "source",
    ["(" * 300 + "1" + ")" * 300, " + ".join(["1"] * 400), "self" + ".a" * 300, "-" * 3 + "[" * 280],
    ids=["parentheses", "sums", "fields", "lists"],
)
def test_expression_that_is_too_deep_is_refused(source: str) -> None:
    """The parser must not overflow the stack."""
    with pytest.raises(ExpressionError, match="<input>:-1:0: max recursion depth exceeded"):
        compile_expression(source, {"self": _SELF})


def test_expression_as_deep_as_allowed_is_evaluated() -> None:
    """A chain of many && operators does not count as deep."""
    assert compile_expression(" == ".join(["true"] * 250), {}).run((), 10_000)[0] is True
    assert compile_expression(" && ".join(["true"] * 2000), {}).run((), 10_000)[0] is True


def test_expression_that_is_too_long_is_refused() -> None:
    with pytest.raises(ExpressionError, match="code point size exceeds limit: size: 100001, limit 100000"):
        compile_expression("1" * 100_001, {})


def test_invalid_constant_pattern_fails_at_compilation() -> None:
    """The error does not wait for the first object."""
    with pytest.raises(InstantiationError, match="error parsing regexp"):
        compile_expression("self.s.findAll('(') == []", {"self": _SELF})


@pytest.mark.parametrize(
    "source",
    [
        "self.l.all(x, self.l.all(y, x + y > 0)) && [1].all(x, true)",
        "'a'.replace('a', self.s)",
        "lists.range(1000000000).size() > 0",
        "('x' + self.s).replace('', 'y').replace('', self.s).replace('', self.s).replace('', self.s).size() > 0",
        "self.s == self.s + 'x' || self.l == [1, 2] || self.s.matches(self.s)",
    ],
)
def test_evaluation_stops_when_no_steps_are_left(source: str) -> None:
    """No operator or macro absorbs the exhausted budget."""
    values = ({"a": 1, "s": "text" * 500, "l": [1, 2, 3], "m": {}},)
    assert compile_expression(source, {"self": _SELF}).run(values, 5) == (None, -1)
