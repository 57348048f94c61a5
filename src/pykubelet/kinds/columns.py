"""Table columns: the definitions of all built-in kinds, and the texts that cells of many kinds share.

The definitions are in `generated/columns.json`, which is read with the first table.

Upstream: pkg/printers/internalversion/printers.go, staging/src/k8s.io/apiserver/pkg/registry/rest/table.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.labels import SelectorError, selector_from_document
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.api.serializer import DecodeError, Document
from pykubelet.api.times import Age

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
SHOWN = 3
"""The number of texts that a cell with a list shows."""


def at(document: Document, *path: str) -> Document:
    """The object at a path, or an empty object."""
    for step in path:
        document = document.get(step) or {}
    return document


def name_of(document: Document) -> str:
    name: str = at(document, "metadata").get("name", "")
    return name


def created(document: Document, age: Age) -> str:
    """The age of the object."""
    return age(at(document, "metadata").get("creationTimestamp"))


def format_labels(labels: Mapping[str, str]) -> str:
    """Labels as `a=b,c=d`, sorted."""
    return ",".join(sorted(f"{key}={value}" for key, value in labels.items())) or NONE


def format_selector(selector: Document | None) -> str:
    """A label selector in kubectl's syntax."""
    return selector_text(selector, invalid="<error>") or NONE


def selector_text(selector: Document | None, *, invalid: str) -> str:
    """A label selector in kubectl's syntax; empty if it matches everything or nothing."""
    try:
        return str(selector_from_document(selector))
    except (SelectorError, DecodeError):
        return invalid


def first_few(texts: Sequence[str], *, empty: str, count: int | None = None) -> str:
    """The first three texts, and the number of the others; `count` is the number of all if only some are given."""
    count = len(texts) if count is None else count
    if count > SHOWN:
        return f"{','.join(texts[:SHOWN])} + {count - SHOWN} more..."
    return ",".join(texts) or empty


def quantity_text(value: Any) -> str:
    """A quantity in canonical form; 0 if it is None."""
    try:
        return str(parse_quantity(str(value))) if value is not None else "0"
    except QuantityError:
        return str(value)


SCALE = "scale"
"""The key of the columns that the scale subresource of every kind has."""


class _Data(msgspec.Struct, frozen=True):
    texts: list[str]
    columns: dict[str, list[tuple[str, str, str, int, int]]]


@cache
def _data() -> _Data:
    text = resources.files("pykubelet.kinds.generated").joinpath("columns.json").read_bytes()
    return msgspec.json.decode(text, type=register_type(_Data))


@cache
def columns_of(group_resource: str) -> list[Document]:
    """The columns of a built-in kind, or name and creation time if it has no own ones. Shared: do not modify."""
    data = _data()
    rows = data.columns.get(group_resource) or data.columns[""]
    return [column(name, type, format, data.texts[text], priority) for name, type, format, text, priority in rows]


def column(name: str, type: str, format: str, description: str, priority: int) -> Document:
    """A column definition; columns with a priority above 0 appear with `-o wide`."""
    return {"name": name, "type": type, "format": format, "description": description, "priority": priority}
