"""Properties that hold for all CEL expressions and values."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykubelet.api.cel.escaping import escape, unescape
from pykubelet.api.cel.functions import FUNCTIONS
from pykubelet.api.cel.interpreter import CelProgram, InstantiationError, compile_expression
from pykubelet.api.cel.library.strings import OVERLOADS as TEXT_FUNCTIONS
from pykubelet.api.cel.library.times import (
    duration_text,
    read_duration,
    read_timestamp,
    timestamp_text,
)
from pykubelet.api.cel.types import INT, STRING, param, substitute, unify
from pykubelet.api.cel.values import (
    CelError,
    Duration,
    ExpressionError,
    Timestamp,
    Uint,
    compare,
    equal,
)
from pykubelet.apiserver.apiextensions.cel.unstructured import from_document, schema_type
from pykubelet.apiserver.apiextensions.schema.listtype import is_unchanged
from pykubelet.apiserver.apiextensions.schema.structural import compile_schema

_INT64 = st.integers(-(2**63), 2**63 - 1)
_SCALARS = st.one_of(
    st.none(), st.booleans(), _INT64, st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=5)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": "string"},
            "l": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "x": {"x-kubernetes-int-or-string": True},
        },
    }
)
_ATOMS = [
    "self",
    "self.n",
    "self.s",
    "self.l",
    "self.m",
    "self.x",
    "1",
    "2u",
    "1.5",
    "'a'",
    "b'a'",
    "true",
    "null",
    "[]",
    "{}",
]
_PIECES = [*_ATOMS, *"[]{}().,?:+-*/%!<", "&&", "||", "==", "in", "all(x,", "has(", "\n", "\x00", "\u00e9"]
_NAMES = sorted(name for name in FUNCTIONS if name.replace(".", "").isalpha())
_SIGNS = st.sampled_from(["+", "-", "*", "/", "%", "==", "<", "in", "&&", "||"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions composed of smaller ones."""
    macros = st.sampled_from(["all", "exists", "exists_one", "map", "filter", "optMap", "sortBy"])
    args = st.lists(inner, max_size=2).map(", ".join)
    return st.one_of(
        st.builds("({} {} {})".format, inner, _SIGNS, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("{}[{}{}]".format, inner, st.sampled_from(["", "?"]), inner),
        st.builds("{{{}: {}}}".format, inner, inner),
        st.builds("[{}]".format, args),
        st.builds("dyn({})".format, inner),
        st.builds("{}.{}(v, {})".format, inner, macros, inner | st.just("v")),
        st.builds("{}({})".format, st.sampled_from(_NAMES), args),
        st.builds("{}.{}({})".format, inner, st.sampled_from(_NAMES), args),
    )


_SOUP = st.lists(st.sampled_from(_PIECES), max_size=14).map(" ".join)
_EXPRESSIONS = st.recursive(st.sampled_from(_ATOMS), _larger, max_leaves=6)


def _compiled(source: str) -> CelProgram | None:
    self_type = schema_type(_SCHEMA)
    assert self_type
    try:
        return compile_expression(source, {"self": self_type})
    except (ExpressionError, InstantiationError):
        return None


@settings(max_examples=300)
@given(_SOUP | _EXPRESSIONS)
@example("! -")
@example("!-self")
def test_any_text_is_refused_or_evaluated(source: str) -> None:
    """No text in a definition has any other outcome."""
    program = _compiled(source)
    if program is not None:
        document = {"n": 1, "s": "s", "l": ["a"], "m": {"k": 1}, "x": "5"}
        found, steps = program.run((from_document(document, _SCHEMA),), 1000)
        assert steps <= 1000
        assert not isinstance(found, CelError) or found.message


@given(_INT64, _INT64, st.sampled_from("+-*"))
def test_arithmetic_is_exact_or_overflows(left: int, right: int, sign: str) -> None:
    """No result is wrong or needs more than 64 bits."""
    exact = {"+": left + right, "-": left - right, "*": left * right}[sign]
    found, _ = compile_expression(f"a {sign} b", {"a": INT, "b": INT}).run((left, right), 10)
    if -(2**63) <= exact < 2**63:
        assert found == exact
    else:
        assert found.message == "integer overflow"


@given(_INT64, _INT64)
def test_division_and_remainder_belong_together(left: int, right: int) -> None:
    """As in Go, a / b * b + a % b equals a."""
    found, _ = compile_expression("a / b * b + a % b == a", {"a": INT, "b": INT}).run((left, right), 10)
    expected_failures = {"division by zero", "integer overflow"}
    assert found is True or found.message in expected_failures


@given(_VALUES, _VALUES)
def test_equality_is_reflexive_and_symmetric(left: Any, right: Any) -> None:
    """This includes numbers of different types."""
    assert equal(left, left)
    assert equal(left, right) == equal(right, left)


@given(
    st.one_of(st.tuples(_INT64, _INT64), st.tuples(st.text(), st.text()), st.tuples(_INT64, st.floats(allow_nan=False)))
)
def test_order_agrees_with_equality(pair: tuple[Any, Any]) -> None:
    """Swapping the values reverses the order."""
    left, right = pair
    assert (compare(left, right) == 0) == equal(left, right)
    assert compare(left, right) == -compare(right, left)


@given(st.text())
def test_quoted_text_is_the_literal_of_itself(text: str) -> None:
    """The output of `strings.quote` can be used in an expression."""
    quote: Callable[[str], str] = next(f for form, f in TEXT_FUNCTIONS if form.startswith("strings.quote"))
    assert compile_expression(quote(text), {}).run((), 10)[0] == text


@given(st.text(alphabet="ab_-./9if"))
def test_escaped_name_means_the_field(name: str) -> None:
    """Unescaping gives the field's name back, so no two fields share an escaped name."""
    shown = escape(name)
    assert shown is None or unescape(shown) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a", "a"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("true", "__true__"),
        ("9a", None),
        ("", None),
        ("a b", None),
        ("\u00e9", None),
    ],
)
def test_names_are_escaped_as_users_write_them(name: str, shown: str | None) -> None:
    """A name with other characters cannot be used in an expression."""
    assert escape(name) == shown


@given(st.integers(-(2**62), 2**62))
def test_duration_is_read_as_written(nanoseconds: int) -> None:
    """Texts of durations have the precision of a double."""
    found = read_duration(duration_text(Duration(nanoseconds)))
    assert abs(found.nanoseconds - nanoseconds) <= abs(nanoseconds) // 10**15


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999_999))
def test_timestamp_is_read_as_written(seconds: int, nanoseconds: int) -> None:
    """This holds for every nanosecond of the years 1 to 9999."""
    timestamp = Timestamp(seconds * 10**9 + nanoseconds)
    assert read_timestamp(timestamp_text(timestamp)) == timestamp


_LISTS = st.lists(st.text(alphabet="abc", max_size=2), max_size=4, unique=True)


@given(_LISTS, _LISTS)
def test_sets_ignore_order_and_add_only_missing_items(one: list[str], other: list[str]) -> None:
    """This applies to lists of type set."""
    left = from_document(one, _SCHEMA.properties["set"])
    right = from_document(other, _SCHEMA.properties["set"])
    assert equal(left, right) == (set(one) == set(other))
    both = left.plus(right)
    assert list(both) == [*one, *(each for each in other if each not in one)]
    assert equal(both, right.plus(left))


@given(st.permutations([{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "c", "v": 3}]))
def test_order_of_items_with_keys_makes_no_difference(items: list[dict[str, Any]]) -> None:
    """This applies to lists of type map; an added item with a known key gives no second item."""
    item = {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
    stated = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item}
    schema = compile_schema(stated)
    ordered = sorted(items, key=lambda each: str(each["k"]))
    assert is_unchanged(items, ordered, schema)
    assert equal(from_document(items, schema), from_document(ordered, schema))
    assert not is_unchanged(items, [*ordered[:2], {"k": "c", "v": 4}], schema)
    added = from_document(items, schema).plus([{"k": "a", "v": 9}, {"k": "z", "v": 0}])
    found = {each.find("k") if not isinstance(each, dict) else each["k"] for each in added}
    assert found == {"a", "b", "c", "z"}


@given(st.lists(st.sampled_from([INT, STRING]), min_size=1, max_size=4))
def test_type_parameter_stands_for_one_type(types: list[Any]) -> None:
    """The first value binds the parameter, and the others must have its type."""
    known = unify({}, types, [param("A")] * len(types))
    assert (known is not None) == (len(set(types)) == 1)
    assert known is None or substitute(known, param("A")) == types[0]


@given(st.integers(0, 2**64 - 1), _INT64)
def test_unsigned_numbers_compare_with_signed_ones(unsigned: int, signed: int) -> None:
    """They compare by their numeric values."""
    assert compare(Uint(unsigned), signed) == (unsigned > signed) - (unsigned < signed)
