"""The columns of a custom resource: its name, and the printer columns of its definition.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.apiserver.tables.jsonpath import JsonPathError, json_path
from pykubelet.kinds.columns import column, columns_of
from pykubelet.kinds.go_values import printed

_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_SCALE = (
    {"name": "Desired", "type": "integer", "description": "Number of desired replicas", "jsonPath": ".spec.replicas"},
    {
        "name": "Available",
        "type": "integer",
        "description": "Number of actual replicas",
        "jsonPath": ".status.replicas",
    },
)


@dataclass(frozen=True, slots=True)
class CustomColumns:
    """The columns of one version of a custom resource."""

    headers: tuple[Document, ...]
    _paths: tuple[tuple[str, Callable[[list[Any]], list[Any]]], ...]

    def cells(self, document: Document, age: Age) -> list[Any]:
        """The name and one cell per column; null if there is no value of the column's type."""
        name = document.get("metadata", {}).get("name", "")
        return [name, *(_cell(type, path, document, age) for type, path in self._paths)]


def custom_columns(printer_columns: Sequence[Document]) -> CustomColumns:
    """Compiles the printer columns, or only the age if there are none; omits columns from the first invalid path on."""
    name_column, created = columns_of("")
    headers, paths = [name_column], []
    for each in printer_columns or [{**_AGE, "description": created["description"]}]:
        path = each.get("jsonPath", "")
        try:
            paths.append((each.get("type", ""), json_path(path)))
        except JsonPathError:
            break
        description = each.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
        name, type, format = (each.get(field, "") for field in ("name", "type", "format"))
        headers.append(column(name, type, format, description, each.get("priority", 0)))
    return CustomColumns(tuple(headers), tuple(paths))


@cache
def scale_columns() -> CustomColumns:
    """The columns of the scale subresource of a custom resource."""
    return custom_columns([*_SCALE, {**_AGE, "description": columns_of("")[1]["description"]}])


def _cell(type: str, path: Callable[[list[Any]], list[Any]], document: Document, age: Age) -> Any:
    try:
        found = path([document])
    except (JsonPathError, RecursionError):
        return None
    if not found:
        return None
    value = found[0]
    match type:
        case "string":
            return printed(value)
        case "integer":
            return int(value) if _is_number(value) else None
        case "number":
            return float(value) if _is_number(value) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return age(value) if isinstance(value, str) else None
        case _:
            return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
