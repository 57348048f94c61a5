"""CEL values of documents by their schemas, and the text forms of durations."""

from typing import Any

import pytest

from pykubelet.api.cel.interpreter import compile_expression
from pykubelet.api.cel.library.times import read_loose_duration
from pykubelet.api.cel.values import NANOSECONDS, CelError, equal
from pykubelet.apiserver.apiextensions.cel.unstructured import from_document, schema_type
from pykubelet.apiserver.apiextensions.schema.listtype import is_unchanged, items_by_key
from pykubelet.apiserver.apiextensions.schema.structural import (
    FieldPathError,
    Structural,
    compile_schema,
    display_field_path,
)

_STRING = {"type": "string"}
_KEPT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_MAP_LIST = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["a", "b"],
    "items": {"type": "object", "properties": {"a": _STRING, "b": _STRING, "l": {"type": "array", "items": _STRING}}},
}


@pytest.mark.parametrize(
    ("stated", "value", "message"),
    [
        (_STRING, None, "invalid data, got null for schema with nullable=false"),
        (_STRING, 1, "invalid data, expected string"),
        ({"type": "integer"}, True, "invalid data, expected int"),
        ({"type": "integer"}, 1.5, "invalid data, expected int"),
        ({"type": "number"}, "1", "invalid data, expected float"),
        ({"type": "boolean"}, 1, "invalid data, expected bool"),
        ({"type": "object"}, [], "invalid data, expected a map for the provided schema with type=object"),
        (
            {"type": "array", "items": _STRING},
            {},
            "invalid data, expected an array for the provided schema with type=array",
        ),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            "invalid data, expected XIntOrString value to be either a string or integer",
        ),
        ({**_STRING, "format": "duration"}, "soon", "Invalid duration soon: unable to parse soon as duration"),
        (
            {**_STRING, "format": "date"},
            "2024-02-30",
            "Invalid date formatted string 2024-02-30: day is out of range for month",
        ),
    ],
)
def test_value_that_does_not_match_its_schema_cannot_be_read(stated: Any, value: Any, message: str) -> None:
    """Such values exist only in old objects, which an update may leave unrepaired."""
    with pytest.raises(CelError) as caught:
        from_document(value, compile_schema(stated))
    assert caught.value.message.startswith(message.rpartition(":")[0] or message)


_EQUAL = [
    ("self.a == self.b", {"a": {"x": 1}, "b": {"x": 1}}, True),
    ("self.a == self.b", {"a": {"x": 1}, "b": {"x": 2}}, False),
    ("self.a == self.b", {"a": {"x": 1}, "b": {"x": 1, "y": 2}}, False),
    ("self.a == {}", {"a": {}}, True),
    ("self.a == {'x': 1}", {"a": {"x": 1}}, False),
    ("self.m == self.n", {"m": {"k": "v"}, "n": {"k": "v"}}, True),
    ("self.m == self.n", {"m": {"k": "v"}, "n": {"j": "v"}}, False),
    ("self.m == {'k': 'v'} && {'k': 'v'} == self.m", {"m": {"k": "v"}}, True),
    ("self.m.all(k, v, v == 'v') && self.m.transformMap(k, v, k) == {'k': 'k'}", {"m": {"k": "v"}}, True),
    ("self.m == dyn([1]) || dyn([1]) == self.m", {"m": {"k": "v"}}, False),
    ("self.l + ['x'] == ['a', 'x']", {"l": ["a"]}, True),
    ("self.l == self.l + []", {"l": ["a"]}, True),
    ("'%s'.format([self.m]) == '{\"k\":\"v\"}'", {"m": {"k": "v"}}, True),
    ("dyn(self).map(k, k) == ['a', 'l']", {"a": {}, "l": []}, True),
]


@pytest.mark.parametrize(("rule", "document", "wanted"), _EQUAL)
def test_objects_are_equal_by_what_is_in_them(rule: str, document: Any, wanted: bool) -> None:
    """Fields without a schema are compared as they are."""
    fields: dict[str, Any] = {
        "a": _KEPT,
        "b": _KEPT,
        "m": {"type": "object", "additionalProperties": _STRING},
        "n": {"type": "object", "additionalProperties": _STRING},
        "l": {"type": "array", "items": _STRING},
    }
    schema = compile_schema({"type": "object", "properties": fields})
    known = schema_type(schema)
    assert known
    # Two fields have different types even if their schemas are equal; only dynamic values can be compared.
    source = rule.replace("self.a", "dyn(self.a)").replace("self.b", "dyn(self.b)")
    found, _ = compile_expression(source, {"self": known}).run((from_document(document, schema),), 1000)
    assert found is wanted


def test_resource_with_metadata_of_its_own_keeps_its_schema() -> None:
    """Other resources get name and generateName only."""
    named = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING, "labels": _KEPT}}
    own = compile_schema({"type": "object", "properties": {"kind": _STRING, "apiVersion": _STRING, "metadata": named}})
    plain = compile_schema({"type": "object", "properties": {"spec": _KEPT}})
    for schema, fields in ((own, {"name", "generateName", "labels"}), (plain, {"name", "generateName"})):
        known = schema_type(schema, is_resource=True)
        assert known
        assert set(known.fields["metadata"].fields) == fields


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        ({"x-kubernetes-preserve-unknown-fields": True}, None),
        ({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}, None),
        ({"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}}, None),
        ({"type": "object", "additionalProperties": {"type": "array", "items": _STRING}}, "map(string, list(string))"),
        ({"x-kubernetes-int-or-string": True}, "dyn"),
        ({**_STRING, "format": "byte"}, "bytes"),
        ({**_STRING, "format": "date-time"}, "timestamp"),
        ({**_STRING, "format": "duration"}, "duration"),
        ({**_STRING, "format": "email"}, "string"),
    ],
)
def test_schema_gives_a_type(stated: Any, wanted: str | None) -> None:
    """A schema that contains a value of unknown type gives none."""
    found = schema_type(compile_schema(stated))
    assert (found and str(found)) == wanted


@pytest.mark.parametrize(
    ("text", "seconds"), [("2 days", 172800), ("1 week 1h", 608400), ("1hr 30 min", 5400), ("1h30m", 5400), ("0", 0)]
)
def test_durations_of_documents_may_be_written_in_words(text: str, seconds: int) -> None:
    """The format `duration` allows words for units."""
    assert read_loose_duration(text).nanoseconds == seconds * NANOSECONDS


def test_items_without_all_keys_match_no_old_item() -> None:
    """Items of a list without keys match none either."""
    schema = compile_schema(_MAP_LIST)
    full, part = {"a": "x", "b": "y"}, {"a": "x"}
    assert list(items_by_key([full, part, full, "z"], schema).values()) == [full]
    assert items_by_key([full], compile_schema({"type": "array"})) == {}
    assert not is_unchanged([part], [{"a": "x", "c": 1}], schema)
    assert not is_unchanged([full], [full, full], schema)
    outer = compile_schema({"type": "object", "properties": {"m": _MAP_LIST, "l": {"type": "array"}}})
    other = {"a": "x", "b": "z"}
    assert is_unchanged({"m": [full, other], "l": [1]}, {"m": [other, full], "l": [1]}, outer)
    assert not is_unchanged({"m": [full, other], "l": [1]}, {"m": [other, full], "l": [2]}, outer)
    assert equal(from_document([full, other], schema), from_document([other, full], schema))


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (".spec.n", "spec.n"),
        (".spec.labels.a", "spec.labels[a]"),
        (".spec.labels['a.b']", "spec.labels[a.b]"),
        (r".spec.labels['it\'s \\']", "spec.labels[it's \\]"),
        (".spec['n']", "spec.n"),
        ("", ""),
        (".nope", None),
        (".spec.n.x", None),
        (".spec.labels['a'].x", None),
        ("spec", None),
        (".spec..n", None),
        (".spec[0]", None),
        (r".spec.labels['\q']", None),
    ],
)
def test_path_of_a_rule_leads_to_a_field(path: str, shown: str | None) -> None:
    """Keys of maps are shown in brackets."""

    def inside(schema: Structural) -> Any:
        return schema.properties, schema.additional

    labels = {"type": "object", "additionalProperties": _STRING}
    spec = {"type": "object", "properties": {"n": {"type": "integer"}, "labels": labels}}
    schema = compile_schema({"type": "object", "properties": {"spec": spec}})
    if shown is None:
        with pytest.raises(FieldPathError):
            display_field_path(path, schema, inside)
    else:
        assert display_field_path(path, schema, inside) == shown
