"""A null in any place of a CustomResourceDefinition or custom resource is dropped or rejected, never a failure."""

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykubelet.api.errors import ApiError
from pykubelet.testing.local_api import local_api
from verb_requests import APPLY, Asker
from widgets import definition, version, widget

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
_TEXT = {"type": "string"}
_SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [
        {
            "rule": "self.size > 0",
            "message": "m",
            "messageExpression": "'m'",
            "reason": "FieldValueInvalid",
            "fieldPath": ".size",
        }
    ],
    "properties": {
        "size": {"type": "integer", "default": 1, "minimum": 1, "maximum": 9, "multipleOf": 1, "format": "int32"},
        "text": {
            "type": "string",
            "pattern": "^a",
            "minLength": 1,
            "maxLength": 5,
            "enum": ["a", "ab"],
            "default": "a",
        },
        "names": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set", "maxItems": 5, "default": ["a"]},
        "parts": {
            "type": "array",
            "maxItems": 5,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": _TEXT, "count": {"type": "integer", "default": 2}},
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}, "maxProperties": 3},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, _TEXT]},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "choice": {
            "type": "object",
            "oneOf": [{"required": ["a"]}],
            "allOf": [{"not": {"required": ["b"]}}],
            "properties": {"a": _TEXT, "b": _TEXT},
        },
    },
}
_STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": _TEXT}}
_SCHEMA = {"type": "object", "description": "d", "properties": {"spec": _SPEC, "status": _STATUS}}
_RICH = definition(
    version(
        schema={"openAPIV3Schema": _SCHEMA},
        deprecated=True,
        deprecationWarning="old",
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=[
            {
                "name": "Size",
                "type": "integer",
                "jsonPath": ".spec.size",
                "priority": 1,
                "description": "d",
                "format": "int32",
            }
        ],
        selectableFields=[{"jsonPath": ".spec.text"}],
    ),
    preserveUnknownFields=False,
    names={
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wg"],
        "categories": ["all"],
    },
)
_WIDGET = widget(
    size=2,
    text="a",
    names=["a", "b"],
    parts=[{"name": "a", "count": 1}, {"name": "b"}],
    labels={"a": "b"},
    any={"a": [1, {"b": 2}]},
    port=80,
    template={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"a": "b"}}},
    choice={"a": "b"},
)
_WIDGET["metadata"] = {
    "name": "w",
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["example.com/a"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True}],
}
_WIDGET["status"] = {"replicas": 1, "selector": "a=b"}


def _with_one_null(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Copies of a document in which one value is null, or one list has a null more; with the path of the null."""

    def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield (*path, key)
            yield from places(item, (*path, key))
        if isinstance(value, list):
            yield (*path, len(value))

    for path in places(document, ()):
        changed = copy.deepcopy(document)
        inner: Any = changed
        for step in path[:-1]:
            inner = inner[step]
        if isinstance(inner, list) and path[-1] == len(inner):
            inner.append(None)
        else:
            inner[path[-1]] = None
        yield ".".join(map(str, path)), changed


async def _failures(
    asker: Asker, method: str, target: str, document: dict[str, Any], content_type: str = ""
) -> list[str]:
    """The paths at which a null makes the server fail."""
    failed: list[str] = []
    for path, changed in _with_one_null(document):
        try:
            await asker.ask(method, f"{target}?dryRun=All&fieldManager=tests", changed, content_type)
        except ApiError as error:
            if error.code >= 500:
                failed.append(f"{method} {path}: {error}")
        except Exception as error:  # noqa: BLE001  every failure is reported, not only the first
            failed.append(f"{method} {path}: {error!r}")
    return failed


async def test_null_in_any_place_of_a_definition_is_no_failure(tmp_path: Path) -> None:
    """New definitions, updates and applied ones."""
    async with local_api(tmp_path) as api:
        asker = Asker(api)
        failed = await _failures(asker, "POST", _DEFINITIONS, _RICH)
        await asker.ask("POST", _DEFINITIONS, _RICH)
        named = f"{_DEFINITIONS}/{_RICH['metadata']['name']}"
        stored = await asker.ask("GET", named)
        failed += await _failures(asker, "PUT", named, stored)
        failed += await _failures(asker, "PUT", f"{named}/status", stored)
        failed += await _failures(asker, "PATCH", named, _RICH, APPLY)
        assert not failed, "\n".join(failed)


async def test_null_in_any_place_of_a_custom_resource_is_no_failure(tmp_path: Path) -> None:
    """New objects, updates, changes of the status and applied ones."""
    async with local_api(tmp_path) as api:
        asker = Asker(api)
        await asker.ask("POST", _DEFINITIONS, _RICH)
        async with asyncio.timeout(10):
            while api.registry.find("example.com", "v1", "widgets") is None:
                await asyncio.sleep(0.1)
        failed = await _failures(asker, "POST", _WIDGETS, _WIDGET)
        await asker.ask("POST", _WIDGETS, _WIDGET)
        failed += await _failures(asker, "PUT", f"{_WIDGETS}/w", _WIDGET)
        failed += await _failures(asker, "PUT", f"{_WIDGETS}/w/status", _WIDGET)
        failed += await _failures(asker, "PATCH", f"{_WIDGETS}/w", _WIDGET, APPLY)
        assert not failed, "\n".join(failed)
