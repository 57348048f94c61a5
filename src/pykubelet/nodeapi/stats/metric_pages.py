"""Pages in the text format of Prometheus; its library is imported when somebody reads one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pykubelet.nodeapi.replies import Reply

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Collector(Protocol):
    """Has something to tell on a page of metrics."""

    def collect(self) -> "Iterable[Metric]":
        """Its families, as of now."""


class Families:
    """Families that are there already. Collector."""

    def __init__(self, families: "Iterable[Metric]") -> None:
        self._families = tuple(families)

    def collect(self) -> "Iterable[Metric]":
        return self._families


def metric_page(collectors: Iterable[Collector], *, with_process: bool = False) -> Reply:
    """The page of what collectors tell; `with_process`, also what this process uses."""
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    if with_process:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    return Reply(200, generate_latest(registry), CONTENT_TYPE)
