"""Structural schemas applied to values: validation errors, pruning, defaults, lists that are sets or maps."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.apiextensions.schema.defaulting import DefaultsBudget, with_defaults, without_stray_nulls
from pykubelet.apiserver.apiextensions.schema.listtype import list_type_errors
from pykubelet.apiserver.apiextensions.schema.pruning import prune, prune_value, unknown_fields
from pykubelet.apiserver.apiextensions.schema.structural import compile_schema
from pykubelet.apiserver.apiextensions.schema.validation import value_errors

_ANY_OF = [{"required": ["a"]}, {"required": ["b"]}]
_INT_OR_STRING = {"x-kubernetes-int-or-string": True}


def _errors(stated: dict[str, Any], value: Any, **more: Any) -> list[str]:
    return [str(error) for error in value_errors({"x": value}, compile_schema({"properties": {"x": stated}}), **more)]


@pytest.mark.parametrize("nest", ["properties", "items", "additionalProperties"])
@pytest.mark.parametrize(
    ("inner", "flag"),
    [
        pytest.param({"default": 1}, "has_defaults", id="defaults"),
        pytest.param({"type": "array", "x-kubernetes-list-type": "set"}, "has_unique_lists", id="lists"),
        pytest.param({"type": "object", "x-kubernetes-embedded-resource": True}, "has_embedded", id="embedded"),
        pytest.param({"x-kubernetes-validations": [{"rule": "true"}]}, "has_rules", id="rules"),
    ],
)
def test_schema_knows_what_only_one_of_its_parts_needs(nest: str, inner: dict[str, Any], flag: str) -> None:
    """Validation skips schemas in which no part needs it."""
    parts = {"plain": {"type": "string"}, "x": inner, "other": {}} if nest == "properties" else inner
    schema = compile_schema({"properties": {"plain": {"type": "string"}, "deep": {nest: parts}}})
    flags = ("has_defaults", "has_unique_lists", "has_embedded", "has_rules")
    assert {name for name in flags if getattr(schema, name)} == {flag}


CASES = [
    ("type", {"type": "integer"}, "a", 'x: Invalid value: "string": x in body must be of type integer: "string"'),
    ("float", {"type": "integer"}, 1.5, 'x: Invalid value: "number": x in body must be of type integer: "number"'),
    ("whole float", {"type": "integer"}, 2.0, None),
    ("int as number", {"type": "number"}, 2, None),
    ("bool", {"type": "integer"}, True, 'x: Invalid value: "boolean": x in body must be of type integer: "boolean"'),
    ("null", {"type": "string"}, None, 'x: Invalid value: "null": x in body must be of type string: "null"'),
    ("nullable", {"type": "string", "nullable": True}, None, None),
    ("int or string", _INT_OR_STRING, [], 'x: Invalid value: "array": x in body must be of type integer,string: "array"'),
    ("either", _INT_OR_STRING, "50%", None),
    ("enum", {"type": "string", "enum": ["a", 1]}, "b", 'x: Unsupported value: "b": supported values: "a", "1"'),
    ("true is not one", {"enum": [1]}, True, 'x: Unsupported value: true: supported values: "1"'),
    ("format and number", {"type": "number", "format": "date"}, "2026-11-15", 'x: Invalid value: "string": x in body must be of type number: "string"'),
    ("any key", {"type": "object", "properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, None),
    ("below", {"type": "integer", "maximum": 5}, 4, None),
    ("all of", {"type": "integer", "allOf": [{"minimum": 1}]}, 4, None),
    ("pattern", {"type": "string", "pattern": "^a$"}, "a\n", "x: Invalid value: \"a\\n\": x in body should match '^a$'"),
    ("long", {"type": "string", "maxLength": 1}, "ab", "x: Too long: may not be more than 1 byte"),
    ("short", {"type": "string", "minLength": 2}, "a", 'x: Invalid value: "a": x in body should be at least 2 chars long'),
    ("max", {"type": "integer", "maximum": 5}, 6, "x: Invalid value: 6: x in body should be less than or equal to 5"),
    ("exclusive", {"type": "number", "maximum": 5, "exclusiveMaximum": True}, 5.0, "x: Invalid value: 5: x in body should be less than 5"),
    ("min", {"type": "number", "minimum": 0.5}, 0.25, "x: Invalid value: 0.25: x in body should be greater than or equal to 0.5"),
    ("above", {"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, "x: Invalid value: 1: x in body should be greater than 1"),
    ("multiple", {"type": "integer", "multipleOf": 3}, 4, "x: Invalid value: 4: x in body should be a multiple of 3"),
    ("tenths", {"type": "number", "multipleOf": 0.5}, 1.5, None),
    ("few items", {"type": "array", "minItems": 2, "items": {}}, [1], "x: Invalid value: 1: x in body should have at least 2 items"),
    ("many items", {"type": "array", "maxItems": 1, "items": {}}, [1, 2], "x: Too many: 2: must have at most 1 item"),
    ("few keys", {"type": "object", "minProperties": 1}, {}, "x: Invalid value: 0: x in body should have at least 1 properties"),
    ("many keys", {"type": "object", "maxProperties": 0}, {"a": 1}, "x: Too many: 1: must have at most 0 items"),
    ("item", {"type": "array", "items": {"type": "string"}}, ["a", 1], 'x[1]: Invalid value: "integer": x[1] in body must be of type string: "integer"'),
    ("map value", {"type": "object", "additionalProperties": {"type": "string"}}, {"k": 1}, 'x.k: Invalid value: "integer": x.k in body must be of type string: "integer"'),
    ("forbidden key", {"type": "object", "additionalProperties": False}, {"k": 1}, 'x: Invalid value: "k": x.k in body is a forbidden property'),
    ("required", {"type": "object", "required": ["a"]}, {}, "x.a: Required value"),
    ("format", {"type": "string", "format": "date-time"}, "now", 'x: Invalid value: "now": x in body must be of type date-time: "now"'),
    ("format of a number", {"type": "string", "format": "date"}, 3, 'x: Invalid value: "int64": x in body must be of type date: "int64"'),
    ("unknown format", {"type": "string", "format": "colour"}, "red", None),
    ("one of", {"type": "object", "oneOf": _ANY_OF}, {"a": 1, "b": 1}, '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives'),
    ("not", {"type": "object", "not": {"required": ["a"]}}, {"a": 1}, '<nil>: Invalid value: "": "x" must not validate the schema (not)'),
    ("factor", {"type": "integer", "multipleOf": -1}, 4, "x: Invalid value: -1: factor MultipleOf declared for x must be positive: -1"),
    ("flag", {"type": "boolean", "enum": [True]}, True, None),
    ("null enum", {"nullable": True, "enum": ["a"]}, None, 'x: Unsupported value: null: supported values: "a"'),
    ("list of anything", {"type": "array"}, [1, "a"], None),
    ("any map", {"type": "object", "additionalProperties": True}, {"a": 1}, None),
    ("any of", {"type": "object", "anyOf": _ANY_OF}, {"b": 1}, None),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "value", "error"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_invalid_value_gives_upstreams_message(stated: Any, value: Any, error: str | None) -> None:
    """Each rule of a schema has its own message."""
    assert _errors(stated, value) == ([] if error is None else [error])


_SIZES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "Length": ("string", lambda size: "é" * size),
    "Items": ("array", lambda size: [1] * size),
    "Properties": ("object", lambda size: {f"k{number}": 1 for number in range(size)}),
}


@pytest.mark.parametrize("name", _SIZES)
@given(low=st.none() | st.integers(0, 4), high=st.none() | st.integers(0, 4), size=st.integers(0, 5))
def test_size_is_checked_against_both_bounds(name: str, low: int | None, high: int | None, size: int) -> None:
    """Each bound is itself allowed; the length of a text counts characters."""
    kind, make = _SIZES[name]
    bounds = {f"min{name}": low, f"max{name}": high}
    inner: dict[str, Any] = (
        {"items": {}} if kind == "array" else {"additionalProperties": {}} if kind == "object" else {}
    )
    fits = (low is None or size >= low) and (high is None or size <= high)
    assert (_errors({"type": kind, **inner, **bounds}, make(size)) == []) == fits


_NUMBERS = st.integers(-4, 4) | st.integers(-8, 8).map(lambda half: half / 2)


@given(
    value=_NUMBERS,
    low=st.none() | st.integers(-3, 3),
    high=st.none() | st.integers(-3, 3),
    exclusive=st.tuples(st.booleans(), st.booleans()),
    factor=st.sampled_from([None, 0.5, 1, 1.5, 2, 3]),
)
def test_number_is_checked_against_its_bounds_and_factor(
    value: float, low: int | None, high: int | None, exclusive: tuple[bool, bool], factor: float | None
) -> None:
    if factor is not None and type(value) is int and factor != int(factor):
        factor = None
    bounds = {"minimum": low, "maximum": high, "multipleOf": factor}
    stated = {"type": "number", **bounds, "exclusiveMinimum": exclusive[0], "exclusiveMaximum": exclusive[1]}
    fits_low = low is None or value > low or (value == low and not exclusive[0])
    fits_high = high is None or value < high or (value == high and not exclusive[1])
    fits = fits_low and fits_high and (factor is None or (value / factor).is_integer())
    assert (_errors(stated, value) == []) == fits


@pytest.mark.parametrize(
    ("value", "factor", "is_multiple"),
    [
        (0.3, 0.1, True),
        (1.1, 0.1, True),
        (0.35, 0.1, False),
        (-0.3, 0.1, True),
        (-3.0000000000000004, 1, False),
        (2.9999999999999996, 1, False),
        (3.0000000000000004, 1, True),
        (3.00001, 1, False),
        (1e-12, 1, False),
        (2.5, 1.25, True),
        (2.0**53 - 1, 1, True),
        (2.0**53, 1, False),
        (1e300, 1e-300, False),
        (2**53 + 2, 2, True),
        (2**53 + 1, 2, False),
        (-9, 3, True),
    ],
)
def test_multiple_is_computed_as_upstream_computes_it(value: float, factor: float, *, is_multiple: bool) -> None:
    """Integers exactly; a quotient of fractions may be a billionth larger than an integer, but not smaller."""
    assert (_errors({"type": "number", "multipleOf": factor}, value) == []) == is_multiple


def test_alternative_with_the_most_matches_is_reported() -> None:
    """Whatever its place: a matching type counts, and more than that a value that was checked."""
    near = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["c"]}
    far = {"type": "object", "required": ["d"]}
    value = {"a": "x", "b": "y"}
    for choice in ("anyOf", "oneOf"):
        for alternatives in ([near, far], [far, near]):
            assert _errors({"type": "object", choice: alternatives}, value)[1:] == ["x.c: Required value"]
    wrong = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert _errors({"type": "object", "anyOf": [wrong, near]}, value)[1:] == ["x.c: Required value"]


def test_failed_alternatives_report_the_nearest_one() -> None:
    """If no alternative of anyOf holds, the error of the first one follows."""
    nothing = _errors({"type": "object", "anyOf": _ANY_OF}, {})
    assert nothing == ['<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)', "x.a: Required value"]
    all_of = _errors({"type": "object", "allOf": _ANY_OF}, {})
    message = '<nil>: Invalid value: "": "x" must validate all the schemas (allOf). None validated'
    assert all_of == ["x.a: Required value", "x.b: Required value", message]
    one_of = _errors({"type": "object", "oneOf": _ANY_OF}, {})
    assert one_of[0].endswith("must validate one and only one schema (oneOf). Found none valid")


def test_unchanged_invalid_values_pass_on_update() -> None:
    """A schema may become stricter than the stored objects."""
    stated = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"type": "string"}}}
    assert _errors(stated, {"a": "long", "b": "new"}, old={"x": {"a": "long", "b": "old"}}) == []
    assert len(_errors(stated, {"a": "longer"}, old={"x": {"a": "long"}})) == 1
    listed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": stated}
    old, new = {"k": "1", "a": "long"}, {"k": "2", "a": "also"}
    assert len(_errors(listed, [new, old], old={"x": [old]})) == 1


_PRUNED = compile_schema(
    {
        "type": "object",
        "properties": {
            "known": {"type": "object", "properties": {"a": {"type": "string"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object"}},
            "open": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"in": {"type": "object"}},
            },
            "pod": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"spec": {"type": "object"}},
            },
        },
    }
)
_JUNK: dict[str, Any] = {
    "apiVersion": "v1",
    "metadata": {"x": 1},
    "known": {"a": "1", "junk": 1},
    "list": [{"a": "1"}, {"junk": {"deep": 1}}],
    "map": {"k": {"junk": 1}},
    "open": {"any": {"thing": 1}, "in": {"junk": 1}},
    "pod": {"kind": "Pod", "junk": 1},
    "junk": 1,
}


def test_unknown_fields_are_named_and_dropped() -> None:
    """They are dropped at any depth, except where x-kubernetes-preserve-unknown-fields keeps them."""
    assert prune(_JUNK, _PRUNED) == {
        "apiVersion": "v1",
        "metadata": {"x": 1},
        "known": {"a": "1"},
        "list": [{"a": "1"}, {}],
        "map": {"k": {}},
        "open": {"any": {"thing": 1}, "in": {}},
        "pod": {"kind": "Pod"},
    }
    names = ["junk", "known.junk", "list[1].junk", "map.k.junk", "open.in.junk", "pod.junk"]
    assert unknown_fields(_JUNK, _PRUNED) == names


def test_document_without_unknown_fields_is_kept_as_it_is() -> None:
    """Pruning returns the same object instead of a copy."""
    clean = prune(_JUNK, _PRUNED)
    assert prune(clean, _PRUNED) is clean
    assert prune_value(clean["known"], _PRUNED.properties["known"]) is clean["known"]


_DEFAULTED = compile_schema(
    {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "A"},
            "n": {"type": "string", "nullable": True, "default": "N"},
            "plain": {"type": "string"},
            "may": {"type": "string", "nullable": True},
            "in": {"type": "object", "default": {}, "properties": {"deep": {"type": "integer", "default": 7}}},
            "list": {
                "type": "array",
                "items": {"type": "object", "properties": {"b": {"type": "string", "default": "B"}}},
            },
        },
    }
)


@pytest.mark.parametrize(
    ("document", "filled"),
    [
        ({}, {"a": "A", "n": "N", "in": {"deep": 7}}),
        ({"a": None, "n": None, "plain": None, "may": None}, {"a": "A", "n": None, "may": None, "in": {"deep": 7}}),
        (
            {"a": "x", "n": "x", "in": {"deep": 1}, "list": [{}]},
            {"a": "x", "n": "x", "in": {"deep": 1}, "list": [{"b": "B"}]},
        ),
    ],
)
def test_defaults_fill_missing_fields_and_forbidden_nulls(document: Any, filled: Any) -> None:
    """A nullable field keeps its null; any other null becomes the default or is dropped."""
    assert with_defaults(without_stray_nulls(document, _DEFAULTED), _DEFAULTED, DefaultsBudget()) == filled


_SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
_MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object"},
}


@pytest.mark.parametrize(
    ("stated", "value", "errors"),
    [
        (_SET, ["a", "b", "a", "a"], ['x[2]: Duplicate value: "a"']),
        (_SET, [1, True, 1.0], []),
        (_MAP, [{"k": "a"}, {"k": "b", "v": 1}, {"k": "a"}], ['x[2]: Duplicate value: {"k":"a"}']),
        (_MAP, [{}, None], ["x[1]: Duplicate value: {}"]),
        (_MAP, ["a"], ['x[0]: Invalid value: "a": must be an object for an array of list-type map']),
        ({"type": "array", "items": _SET}, [["a", "a"]], ['x[0][1]: Duplicate value: "a"']),
        ({"type": "object", "properties": {"a": _SET}}, "a", []),
        ({"type": "object", "additionalProperties": _SET}, {"k": ["a", "a"]}, ['x[k][1]: Duplicate value: "a"']),
    ],
)
def test_duplicate_items_of_sets_and_maps_are_errors(stated: Any, value: Any, errors: list[str]) -> None:
    """Each duplicated item is reported once, where it occurs the second time."""
    found = list_type_errors({"x": value}, compile_schema({"properties": {"x": stated}}))
    assert [str(error) for error in found] == errors


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*_JUNK, "a", "b", "in", "k"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from([*_JUNK, "a", "n", "in", "plain"]), _JSON, max_size=6),
    st.sampled_from([_PRUNED, _DEFAULTED]),
)
def test_pruned_and_defaulted_documents_stay_as_they_are(document: dict[str, Any], schema: Any) -> None:
    """A second pass changes nothing, no unknown field is left, and the input is not changed."""
    before = repr(document)
    done = with_defaults(without_stray_nulls(prune(document, schema), schema), schema, DefaultsBudget())
    again = with_defaults(without_stray_nulls(prune(done, schema), schema), schema, DefaultsBudget())
    assert again == done
    assert unknown_fields(done, schema) == []
    assert repr(document) == before


@given(_JSON, st.sampled_from([case[1] for case in CASES]))
def test_unchanged_value_gives_no_errors(value: Any, stated: dict[str, Any]) -> None:
    """An update may keep any value that violates its schema."""
    assert _errors(stated, value, old={"x": value}) == []
