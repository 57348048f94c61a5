"""Where the API server looks for what versions state: in each of them, or once for all.

What all versions of a definition state alike (schema, subresources, columns, selectable fields) it keeps in one place,
as the first form of definitions had it, and its complaints name that place: `spec.validation` for a definition with one
version, `spec.versions[1].schema` where versions differ.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go
"""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.wire import Document

_PLACES = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_SHOWN = (
    ("Name", "name", ""),
    ("Served", "served", False),
    ("Storage", "storage", False),
    ("Deprecated", "deprecated", False),
    ("DeprecationWarning", "deprecationWarning", None),
    ("Schema", "schema", None),
    ("Subresources", "subresources", None),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", None),
    ("SelectableFields", "selectableFields", None),
)


def is_shared(spec: Document, field: str) -> bool:
    """Whether all versions state the same."""
    versions = spec.get("versions") or []
    return all(version.get(field) == versions[0].get(field) for version in versions)


def per_version(spec: Document, field: str, index: int) -> tuple[Any, str] | None:
    """What a version states that not all state alike, and where."""
    version = spec["versions"][index]
    if version.get(field) is None or is_shared(spec, field):
        return None
    return version[field], f"spec.versions[{index}].{field}"


def shared(spec: Document, field: str) -> Iterator[tuple[Any, str]]:
    """What all versions state, if they do, and where."""
    versions = spec.get("versions") or []
    if versions and versions[0].get(field) is not None and is_shared(spec, field):
        yield versions[0][field], f"spec.{_PLACES[field]}"


def shown_versions(spec: Document) -> list[Document] | None:
    """The versions as complaints show them: with Go's names, without what they share."""
    versions = spec.get("versions")
    if versions is None:
        return None
    kept = [field for field in _PLACES if not is_shared(spec, field)]
    return [
        {name: version.get(key, empty) if key not in _PLACES or key in kept else None for name, key, empty in _SHOWN}
        for version in versions
    ]
