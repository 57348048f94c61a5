"""Usage of a node and its containers, computed from two readings of the kubelet's /metrics/resource.

CPU time only ever grows, so the usage is its growth between two readings, divided by the time between them. A container
that restarted in between has no usage until the next reading, unless it is at least 10 s old: then its window starts
with it. These are the rules of metrics-server's pkg/storage, which is a project of its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

INTERVAL_SECONDS = 15.0
"""The time between two readings, as metrics-server's --metric-resolution."""
# A window of a container that has just started must not be too short to say anything.
_MIN_FRESH_SECONDS = 10.0
_LINE = re.compile(
    r"^(node|container)_(cpu_usage_seconds_total|memory_working_set_bytes|start_time_seconds)"
    r"(?:\{([^}]*)\})? ([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?: ([0-9]{1,14}))?$",
    re.MULTILINE,
)
_LABEL = re.compile(r'([a-z]+)="([^"]*)"')
# No node has used more seconds or bytes than that; a larger number is a mistake, and is not computed with.
_MOST = 1e18
_Key = tuple[str, str, str]
"""Namespace, pod and container; all empty for the node itself."""
_NODE: _Key = ("", "", "")


@dataclass(frozen=True, slots=True)
class MetricsPoint:
    """One reading: when it was taken, the CPU time used since the start, and the working set. Times are since 1970."""

    at: float
    cpu_seconds: float
    memory_bytes: int
    started_at: float = 0.0


@dataclass(frozen=True, slots=True)
class MetricsWindow:
    """The newest reading, and the one that its window starts with, if there is any."""

    last: MetricsPoint
    before: MetricsPoint | None = None

    @property
    def seconds(self) -> float:
        return self.last.at - self.before.at if self.before is not None else 0.0

    @property
    def nano_cores(self) -> int | None:
        """The mean CPU usage in the window; None if there is no window, or the CPU time has decreased."""
        before = self.before
        if before is None or self.seconds <= 0 or self.last.cpu_seconds < before.cpu_seconds:
            return None
        return round((self.last.cpu_seconds - before.cpu_seconds) / self.seconds * 1e9)


class NodeUsage(NamedTuple):
    """The windows of a node, and of the containers of its pods by namespace and name of the pod."""

    node: MetricsWindow | None = None
    pods: Mapping[tuple[str, str], Mapping[str, MetricsWindow]] = {}


def read_usage(page: bytes, old: NodeUsage) -> NodeUsage:
    """The usage after reading a page; what the page does not have is gone."""
    node: MetricsWindow | None = None
    pods: dict[tuple[str, str], dict[str, MetricsWindow]] = {}
    for (namespace, pod, container), point in points_of(page).items():
        if not container:
            node = moved_window(point, old.node)
            continue
        known = old.pods.get((namespace, pod), {}).get(container)
        pods.setdefault((namespace, pod), {})[container] = moved_window(point, known)
    return NodeUsage(node, pods)


def moved_window(point: MetricsPoint, old: MetricsWindow | None) -> MetricsWindow:
    """The window that ends with a new reading."""
    if old is not None and point.started_at < old.last.at:
        # Some kubelets read their counters less often than they are asked, and repeat the reading.
        return MetricsWindow(point, old.last if point.at > old.last.at else old.before)
    if _MIN_FRESH_SECONDS <= point.at - point.started_at < INTERVAL_SECONDS:
        return MetricsWindow(point, MetricsPoint(point.started_at, 0.0, 0, point.started_at))
    return MetricsWindow(point)


def points_of(page: bytes) -> dict[_Key, MetricsPoint]:
    """The readings of a page that have both CPU and memory, as metrics-server requires."""
    numbers: dict[_Key, dict[str, float]] = {}
    for scope, name, labels, value, milliseconds in _LINE.findall(page.decode(errors="replace")):
        found = dict(_LABEL.findall(labels))
        key = _NODE if scope == "node" else tuple(found.get(label, "") for label in ("namespace", "pod", "container"))
        if (number := float(value)) > _MOST:
            continue
        values = numbers.setdefault(key, {})
        values[name] = number
        if name == "cpu_usage_seconds_total" and milliseconds:
            values["at"] = int(milliseconds) / 1000
    return {
        key: MetricsPoint(
            values["at"],
            values["cpu_usage_seconds_total"],
            int(values["memory_working_set_bytes"]),
            values.get("start_time_seconds", 0.0),
        )
        for key, values in numbers.items()
        if values.keys() >= {"at", "cpu_usage_seconds_total", "memory_working_set_bytes"}
    }
