"""The columns of each kind: name, type, format, description, priority.

They stand in `generated/columns.json`, which is read when the first table is asked for.

Upstream: pkg/printers/internalversion/printers.go (AddHandlers), staging/src/k8s.io/apiserver/pkg/registry/rest/table.go
"""

from functools import cache
from importlib import resources
from typing import Any

import msgspec

from pykubelet.aio.learned import learned
from pykubelet.api.wire import Document

SCALE = "scale"
"""The columns of the scale subresource, whatever is scaled."""
_DEFAULT = ""


class _Data(msgspec.Struct, frozen=True):
    texts: list[str]
    columns: dict[str, list[tuple[str, str, str, int, int]]]


@cache
def _data() -> _Data:
    text = resources.files("pykubelet.apiserver.tables.generated").joinpath("columns.json").read_bytes()
    return msgspec.json.decode(text, type=learned(_Data))


@cache
def columns_of(group_resource: str) -> list[Document]:
    """The columns of a built-in kind; name and time of creation where it has none of its own. Shared: not to be changed."""
    data = _data()
    rows = data.columns.get(group_resource) or data.columns[_DEFAULT]
    return [column(name, type, format, data.texts[text], priority) for name, type, format, text, priority in rows]


def column(name: str, type: str, format: str, description: str, priority: int) -> Document:
    """One column definition; columns with a priority above 0 are for `-o wide`."""
    made: dict[str, Any] = {
        "name": name,
        "type": type,
        "format": format,
        "description": description,
        "priority": priority,
    }
    return made
