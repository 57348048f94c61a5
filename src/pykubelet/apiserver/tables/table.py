"""Converts an object or a list to a Table or to PartialObjectMetadata.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go, pkg/printers/tablegenerator.go
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pykubelet.api.errors import BadRequest, NotAcceptable
from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age, ages_at, format_time, parse_time
from pykubelet.apiserver.tables.custom_columns import scale_columns
from pykubelet.kinds.columns import SCALE, at, columns_of, created, name_of
from pykubelet.kinds.kind import Cells, Kind

META_GROUP = "meta.k8s.io"
_NEVER = "0001-01-01T00:00:00Z"


def as_table(
    document: Document, kind: Kind, *, include: str, now: datetime, headers: bool = True, version: str = "v1"
) -> Document:
    """Converts an object or a list to a Table; a Status is returned unchanged.

    A watch converts each event, with columns (`headers`) only for the first. Raises BadRequest for an unknown
    `include`.
    """
    if include not in {"", "Metadata", "Object", "None"}:
        raise BadRequest(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {go_quote(include)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    if _is_status(document):
        return document
    is_list = "items" in document
    items: list[Document] = (document["items"] or []) if is_list else [document]
    metadata = document.get("metadata", {})
    columns, cells = _printer(kind, document)
    rows = _rows(items, kind, cells, include=include, age=ages_at(now), version=version)
    return {
        "kind": "Table",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": metadata if is_list else {"resourceVersion": metadata.get("resourceVersion", "")},
        "columnDefinitions": columns if headers else None,
        # The rows of the default table are a nil slice in Go until there is one.
        "rows": rows if rows or cells is not _default_cells else None,
    }


def _printer(kind: Kind, document: Document) -> tuple[Sequence[Document], Cells]:
    if document.get("kind") == "Scale" and document.get("apiVersion") == "autoscaling/v1":
        if kind.definition:
            return columns_of(SCALE), scale_cells
        custom = scale_columns()
        return custom.headers, custom.cells
    columns = columns_of(kind.resource.group_resource) if kind.columns is None else kind.columns
    return columns, kind.cells or _default_cells


def scale_cells(document: Document, age: Age) -> list[Any]:
    """Cells of the scale subresource: name, desired, available, age."""
    spec, status = at(document, "spec"), at(document, "status")
    return [name_of(document), spec.get("replicas", 0), status.get("replicas", 0), created(document, age)]


def _default_cells(document: Document, _age: Age) -> list[Any]:
    """Cells: name and creation time."""
    creation = at(document, "metadata").get("creationTimestamp")
    return [name_of(document), format_time(parse_time(creation)) if creation else _NEVER]


def _rows(
    items: Sequence[Document], kind: Kind, cells: Cells, *, include: str, age: Age, version: str
) -> list[Document]:
    rows: list[Document] = []
    for item in items:
        row: dict[str, Any] = {"cells": cells(item, age)}
        if kind.row_conditions is not None and (conditions := kind.row_conditions(item)):
            row["conditions"] = conditions
        row["object"] = None
        if include == "Object":
            row["object"] = {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version, **item}
        elif include != "None" or _ends_initial_events(item):
            row["object"] = as_partial(item, version=version)
        rows.append(row)
    return rows


def _ends_initial_events(item: Document) -> bool:
    """Whether this is the bookmark that ends the initial events; its metadata is always included."""
    return (item.get("metadata", {}).get("annotations") or {}).get("k8s.io/initial-events-end") == "true"


def as_partial(document: Document, *, version: str = "v1") -> Document:
    """Converts an object to PartialObjectMetadata; a list is not acceptable. A Status is returned unchanged."""
    if _is_status(document):
        return document
    if "items" in document:
        kind = document.get("kind", "")
        raise NotAcceptable(f"you requested PartialObjectMetadata, but the requested object is a list ({kind})")
    return _partial(document, version)


def as_partial_list(document: Document, *, version: str = "v1") -> Document:
    """Converts a list to PartialObjectMetadataList; an object is not acceptable. A Status is returned unchanged."""
    if _is_status(document):
        return document
    if "items" not in document:
        kind = document.get("kind", "")
        raise NotAcceptable(f"you requested PartialObjectMetadataList, but the requested object is not a list ({kind})")
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": document.get("metadata", {}),
        "items": [_partial(item, version) for item in document["items"] or ()],
    }


def _partial(document: Document, version: str) -> Document:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{version}",
        "metadata": document.get("metadata", {}),
    }


def _is_status(document: Document) -> bool:
    return document.get("kind") == "Status" and document.get("apiVersion") == "v1"
