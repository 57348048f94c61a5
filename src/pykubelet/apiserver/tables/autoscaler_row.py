"""A HorizontalPodAutoscaler as a row: what it scales, by which metrics, within which bounds.

Upstream: formatHPAMetrics and printHorizontalPodAutoscaler in pkg/printers/internalversion/printers.go
"""

from typing import Any

from pykubelet.api.ages import Age
from pykubelet.api.wire import Document
from pykubelet.apiserver.tables.cell_texts import NONE, UNKNOWN, UNSET, at, created, joined, name_of, quantity_text

_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_SHOWN = 2


def autoscaler_cells(document: Document, age: Age) -> list[Any]:
    """Name, reference, targets, min pods, max pods, replicas, age."""
    spec, status = at(document, "spec"), at(document, "status")
    target = at(spec, "scaleTargetRef")
    least = spec.get("minReplicas")
    return [
        name_of(document),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec.get("metrics") or [], status.get("currentMetrics") or []),
        UNSET if least is None else str(least),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        created(document, age),
    ]


def _metrics(specs: list[Document], statuses: list[Document]) -> str:
    if not specs:
        return NONE
    texts = [_metric(spec, statuses[index] if index < len(statuses) else {}) for index, spec in enumerate(specs)]
    more = f" + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else ""
    return joined(texts[:_SHOWN]) + more


def _metric(spec: Document, status: Document) -> str:
    source = _SOURCES.get(spec.get("type", ""))
    if source is None:
        return "<unknown type>"
    target = at(spec, source, "target")
    observed = status.get(source)
    current = at(observed or {}, "current")
    if source in {"resource", "containerResource"}:
        name = at(spec, source).get("name", "")
        if target.get("averageValue") is not None:
            return f"{name}: {_current(observed, current, 'averageValue')}/{_amount(target.get('averageValue'))}"
        return f"{name}: {_percent(current, UNKNOWN)}/{_percent(target, '<auto>')}"
    if source == "pods":
        return f"{_current(observed, current, 'averageValue')}/{_amount(target.get('averageValue'))}"
    if target.get("averageValue") is not None:
        value = current.get("averageValue")
        return f"{UNKNOWN if value is None else _amount(value)}/{_amount(target['averageValue'])} (avg)"
    return f"{_current(observed, current, 'value')}/{_amount(target.get('value'))}"


def _current(observed: Document | None, current: Document, key: str) -> str:
    return UNKNOWN if observed is None else _amount(current.get(key))


def _percent(values: Document, missing: str) -> str:
    value = values.get("averageUtilization")
    return missing if value is None else f"{value}%"


def _amount(value: Any) -> str:
    return "<nil>" if value is None else quantity_text(value)
