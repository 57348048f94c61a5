"""A CustomResourceDefinition and its objects."""

from typing import Any

NOW = "2026-11-15T12:00:00Z"


def schema(**properties: Any) -> dict[str, Any]:
    """A schema of an object with these fields in its spec."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def version(name: str = "v1", **more: Any) -> dict[str, Any]:
    """A version that is served and stored."""
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema(size={"type": "integer"})},
        **more,
    }


def definition(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A definition of widgets as a client writes it, with its defaults."""
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.example.com", "generation": 1},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions or [version()]),
            "conversion": {"strategy": "None"},
            **spec,
        },
        "status": {"storedVersions": ["v1"], "acceptedNames": {"plural": "", "kind": ""}},
    }


def widget(**spec: Any) -> dict[str, Any]:
    """A widget in its namespace."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default", "resourceVersion": "1"},
        "spec": spec,
    }
