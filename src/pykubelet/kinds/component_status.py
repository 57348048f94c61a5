"""ComponentStatus: deprecated, read-only, and always empty here.

Upstream: pkg/registry/core/componentstatus/rest.go
"""

from typing import Any

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import name_of
from pykubelet.kinds.kind import Kind


def _cells(document: Document, _age: Age) -> list[Any]:
    """Cells: name, status, message, error."""
    healthy = next((each for each in document.get("conditions") or () if each.get("type") == "Healthy"), None)
    if healthy is None:
        return [name_of(document), "Unknown", "", ""]
    status = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_of(document), status, healthy.get("message", ""), healthy.get("error", "")]


KIND = Kind(
    resource=Resource("", "v1", "componentstatuses", "ComponentStatus", namespaced=False),
    definition="core.v1.ComponentStatus",
    short_names=("cs",),
    verbs=("get", "list"),
    cells=_cells,
    deprecation_warnings=("v1 ComponentStatus is deprecated in v1.19+",),
)
