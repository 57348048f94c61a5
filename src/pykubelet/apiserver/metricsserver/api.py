"""The resources of metrics.k8s.io: gets and lists the usage of nodes and pods.

They are computed, never stored. A pod has metrics once each of its running containers has a window. In Kubernetes metrics-server serves this group.

Upstream: staging/src/k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from pykubelet.aio.clock import Clock
from pykubelet.api import serializer
from pykubelet.api.errors import NotFound
from pykubelet.api.field_errors import go_quote
from pykubelet.api.quantity import Format, Quantity, add, parse_quantity
from pykubelet.api.schema import NODE_METRICS, NODES, POD_METRICS, PODS
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age, format_duration, format_time
from pykubelet.apiserver.handlers.options import ObjectSelector, list_options, object_selector
from pykubelet.apiserver.metricsserver.scraper import UsageScraper
from pykubelet.apiserver.metricsserver.usage import MetricsWindow, NodeUsage
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.columns import column
from pykubelet.kinds.kind import Kind

_RESOURCES = ("cpu", "memory")
_QUANTITY = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity"}
_USAGE: Document = {
    "description": "Usage of cpu in cores and of memory in bytes.",
    "type": "object",
    "additionalProperties": _QUANTITY,
}
_WINDOW: Document = {
    "timestamp": {
        "description": "End of the window over which the usage was measured.",
        "$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    },
    "window": {"description": "Length of the window, such as 15s.", "type": "string"},
}
_CONTAINERS: Document = {
    "description": "Usage of each container.",
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"description": "Name of the container.", "type": "string"}, "usage": _USAGE},
        "required": ["name", "usage"],
    },
}


def _cells(document: Document, _age: Age) -> list[Any]:
    """Cells: name, CPU, memory, window."""
    usages = [one["usage"] for one in document.get("containers") or (document,)]
    return [document["metadata"]["name"], *(str(_total(usages, name)) for name in _RESOURCES), document["window"]]


def _total(usages: Iterable[Mapping[str, str]], name: str) -> Quantity:
    total = Quantity()
    for usage in usages:
        total = add(total, parse_quantity(usage[name]))
    return total


_COLUMNS = (
    column("Name", "string", "name", "Name of the resource", 0),
    *(column(name, "string", "", f"Usage of {name}", 0) for name in _RESOURCES),
    column("Window", "string", "", "Time over which the usage was measured", 0),
)
NODE_METRICS_KIND = Kind(
    resource=NODE_METRICS,
    structural={"description": "Resource usage of a node.", "properties": {**_WINDOW, "usage": _USAGE}},
    singular="",
    verbs=("get", "list"),
    columns=_COLUMNS,
    cells=_cells,
)
POD_METRICS_KIND = Kind(
    resource=POD_METRICS,
    structural={"description": "Resource usage of a pod.", "properties": {**_WINDOW, "containers": _CONTAINERS}},
    singular="",
    verbs=("get", "list"),
    columns=_COLUMNS,
    cells=_cells,
)
METRICS_KINDS = (NODE_METRICS_KIND, POD_METRICS_KIND)


class _MeasuredMetadata(msgspec.Struct):
    labels: dict[str, str] = {}


class _MeasuredSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _MeasuredObject(msgspec.Struct):
    """The part of a node or pod that its metrics need: decoding the whole would take ten times as long."""

    metadata: _MeasuredMetadata
    spec: _MeasuredSpec


class MetricsApi:
    """The handlers of metrics.k8s.io. `get` reads the store."""

    def __init__(self, scraper: UsageScraper, get: Callable[[StoreKey], StoreEntry | None], clock: Clock) -> None:
        self._scraper, self._get, self._clock = scraper, get, clock

    def handlers(self) -> Mapping[tuple[str, str], Callable[[ApiRequest], Awaitable[ApiResponse]]]:
        return {
            (NODE_METRICS.group_resource, ""): self.node_metrics,
            (POD_METRICS.group_resource, ""): self.pod_metrics,
        }

    async def node_metrics(self, request: ApiRequest) -> ApiResponse:
        """Answers get and list of NodeMetrics."""
        usage = await self._scraper.usage()
        if request.verb == "get":
            return self._one(request, "nodemetrics", request.name, self._nodes(request.name, usage.get(request.name)))
        found = (document for name in sorted(usage) for document in self._nodes(name, usage[name]))
        return _list(request, found)

    async def pod_metrics(self, request: ApiRequest) -> ApiResponse:
        """Answers get and list of PodMetrics."""
        usage = await self._scraper.usage()
        if request.verb == "get":
            place = f"{request.namespace}/{request.name}"
            entry = self._get(StoreKey(PODS.plural, request.namespace, request.name))
            node = "" if entry is None else serializer.decode(entry.text, _MeasuredObject).spec.node_name
            containers = usage.get(node, NodeUsage()).pods.get((request.namespace, request.name), {})
            found = self._pods(node, request.namespace, request.name, containers)
            return self._one(request, "podmetrics", place, found)
        places = sorted(
            (namespace, name, node)
            for node, found_on in usage.items()
            for namespace, name in found_on.pods
            if request.namespace in ("", namespace)
        )
        return _list(
            request,
            (
                document
                for namespace, name, node in places
                for document in self._pods(node, namespace, name, usage[node].pods[namespace, name])
            ),
        )

    def _one(self, request: ApiRequest, resource: str, name: str, found: Iterator[Document]) -> ApiResponse:
        document = next(found, None)
        if document is None:
            group = request.served.resource.group
            details = {"name": name, "group": group, "kind": resource}
            raise NotFound(f"{resource}.{group} {go_quote(name)} not found", details=details)
        return ApiResponse(body=document)

    def _nodes(self, name: str, usage: NodeUsage | None) -> Iterator[Document]:
        """The metrics of a node that exists and has a window."""
        entry = self._get(StoreKey(NODES.plural, "", name))
        window = usage.node if usage is not None else None
        if entry is None or window is None or window.nano_cores is None:
            return
        metadata = {"name": name, **self._metadata(serializer.decode(entry.text, _MeasuredObject))}
        yield {**_head(NODE_METRICS_KIND, metadata, window), "usage": _usage(window)}

    def _pods(
        self, node: str, namespace: str, name: str, containers: Mapping[str, MetricsWindow]
    ) -> Iterator[Document]:
        """The metrics of a pod that is on the node and whose containers all have a window."""
        entry = self._get(StoreKey(PODS.plural, namespace, name))
        if entry is None or not containers or any(window.nano_cores is None for window in containers.values()):
            return
        pod = serializer.decode(entry.text, _MeasuredObject)
        if pod.spec.node_name != node:
            return
        metadata = {"name": name, "namespace": namespace, **self._metadata(pod)}
        earliest = min(containers.values(), key=lambda window: window.last.at)
        rows = [{"name": container, "usage": _usage(window)} for container, window in sorted(containers.items())]
        yield {**_head(POD_METRICS_KIND, metadata, earliest), "containers": rows}

    def _metadata(self, found: _MeasuredObject) -> Document:
        labels = {"labels": found.metadata.labels} if found.metadata.labels else {}
        return {"creationTimestamp": format_time(self._clock.now()), **labels}


def _list(request: ApiRequest, documents: Iterable[Document]) -> ApiResponse:
    served = request.served
    options = list_options(request.query)
    chosen: ObjectSelector = object_selector(options.labels, options.fields, served)
    items = [document for document in documents if chosen.matches(document, served)]
    kind = f"{served.resource.kind}List"
    return ApiResponse(body={"kind": kind, "apiVersion": served.resource.api_version, "metadata": {}, "items": items})


def _head(kind: Kind, metadata: Document, window: MetricsWindow) -> Document:
    return {
        "kind": kind.resource.kind,
        "apiVersion": kind.resource.api_version,
        "metadata": metadata,
        "timestamp": format_time(datetime.fromtimestamp(window.last.at, UTC)),
        "window": format_duration(round(window.seconds, 3)),
    }


def _usage(window: MetricsWindow) -> dict[str, str]:
    cpu = Quantity(window.nano_cores or 0, -9, Format.DECIMAL_SI)
    return {"cpu": str(cpu), "memory": str(Quantity(window.last.memory_bytes, 0, Format.BINARY_SI))}
