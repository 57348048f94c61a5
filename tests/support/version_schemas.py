"""The fields of each kind in a Kubernetes version, from its published schemas."""

import json
from collections.abc import Iterator
from importlib import import_module, resources
from typing import Any


class Definitions:
    """The schemas of one version, such as 1.31."""

    def __init__(self, version: str) -> None:
        folder = resources.files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}.0-local"
        self._all: dict[str, Any] = json.loads((folder / "_definitions.json").read_text())["$defs"]

    def unknown_fields(self, kind: str, document: Any) -> Iterator[str]:
        """Fields of a document, or of a patch of one, that the version does not have, such as `PodStatus.phase`."""
        return self._unknown(f"io.k8s.api.{kind}", document)

    def _unknown(self, name: str, value: Any) -> Iterator[str]:
        properties = self._all.get(name, {}).get("properties", {})
        if not properties or not isinstance(value, dict):
            return
        for field, inner in value.items():
            # Directives of strategic merge patches.
            if field.startswith("$"):
                continue
            if field not in properties:
                yield f"{name.rpartition('.')[2]}.{field}"
                continue
            schema = properties[field]
            reference = schema.get("$ref") or (schema.get("items") or {}).get("$ref", "")
            for item in inner if isinstance(inner, list) else [inner]:
                yield from self._unknown(reference.removeprefix("#/$defs/"), item)


def validate(document: Any, version: str) -> None:
    """Raises if an object breaks the schema of its kind, or has fields that this version does not know."""
    import_module("kubernetes_validate").validate(document, version, strict=True)
