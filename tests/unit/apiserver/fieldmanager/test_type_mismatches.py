"""Type errors of an applied object, in upstream's words."""

from typing import Any

import pytest

from pykubelet.apiserver.fieldmanager.apply import mismatch_message, type_mismatches
from pykubelet.apiserver.fieldmanager.typeconverter import schema_of, structural_schema

POD = schema_of("core.v1.Pod").type
CUSTOM = structural_schema(
    {
        "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "properties": {"id": {"type": "string"}}},
            },
            "when": {"type": "string", "format": "date"},
            "any": {"x-kubernetes-preserve-unknown-fields": True},
        }
    }
).type


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"spec": {"nope": 1}}, ".spec.nope: field not declared in schema"),
        (
            {"metadata": {"labels": {"a": 1}}},
            ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            {"metadata": {"labels": {"a": {"b": [True, None, "x"]}}}},
            (
                ".metadata.labels.a: expected string, got &value.valueUnstructured"
                '{Value:map[string]interface {}{"b":[]interface {}{true, interface {}(nil), "x"}}}'
            ),
        ),
        ({"spec": {"hostNetwork": "yes"}}, ".spec.hostNetwork: expected boolean, got &{yes}"),
        ({"spec": {"priority": "1"}}, ".spec.priority: expected numeric (int or float), got string"),
        ({"spec": {"priority": True}}, ".spec.priority: expected numeric (int or float), got bool"),
        ({"spec": {"containers": {}}}, ".spec.containers: expected list, got &{map[]}"),
        ({"spec": []}, ".spec: expected map, got &{[]}"),
        (
            {"spec": {"containers": [{"name": "c"}, {"name": "c"}]}},
            '.spec.containers: duplicate entries for key [name="c"]',
        ),
        (
            {"spec": {"containers": [{"name": "c", "image": 5}]}},
            '.spec.containers[name="c"].image: expected string, got &value.valueUnstructured{Value:5}',
        ),
        (
            {"spec": {"tolerations": [{"key": 1}]}},
            ".spec.tolerations[0].key: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            {"spec": {"priority": "1", "volumes": [None]}},
            (
                "errors:\n  .spec.priority: expected numeric (int or float), got string\n"
                "  .spec.volumes: element 0: associative list with keys may not have a null element"
            ),
        ),
    ],
)
def test_type_errors_of_a_pod_are_reported(value: Any, text: str) -> None:
    """These are unknown fields, wrong types and duplicate keys; several errors form a list."""
    assert mismatch_message(list(type_mismatches(value, POD))) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"keyed": [{}]},
            (
                '.keyed: element 0: associative list with keys has an element that omits all key fields ["id"] '
                "(and doesn't have default values for any key fields)"
            ),
        ),
        ({"keyed": [1]}, ".keyed: element 0: associative list with keys may not have non-map elements"),
        ({"set": [{}]}, ".set: element 0: associative list without keys has an element that's a map type"),
        ({"set": [[]]}, ".set: element 0: not supported: associative list with lists as elements"),
        ({"set": [None]}, ".set: element 0: associative list without keys has an element that's an explicit null"),
        ({"when": {"a": 1}}, ".when: expected any scalar, got &{map[a:1]}"),
    ],
)
def test_type_errors_of_a_custom_resource_are_reported(value: Any, text: str) -> None:
    """For sets and keyed lists, the error states why an item does not fit."""
    assert mismatch_message(list(type_mismatches(value, CUSTOM))) == text


@pytest.mark.parametrize("value", [{"any": {"x": [1, {"y": None}]}}, {"any": 5}, {"set": None}, {"when": "2026"}])
def test_valid_value_gives_no_type_errors(value: Any) -> None:
    """Null fits everywhere, and any value fits a field that preserves unknown fields."""
    assert list(type_mismatches(value, CUSTOM)) == []
