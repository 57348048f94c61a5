"""Gathers and formats what `top` shows, as kubectl does.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/top/top_node.go, staging/src/k8s.io/kubectl/pkg/cmd/top/top_pod.go,
staging/src/k8s.io/kubectl/pkg/metricsutil/metrics_printer.go
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import click

from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import NODE_METRICS, NODES, POD_METRICS, PODS, Resource
from pykubelet.api.serializer import Document
from pykubelet.cli.actions.session import ApiSession
from pykubelet.cli.client_command import print_error
from pykubelet.cli.printers.table import Row, align_rows, cell_text
from pykubelet.client.interface import Selection

_MEBIBYTE = 2**20
_UNKNOWN = "<unknown>"
_NODE_HEADER = ("NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)")
_POD_HEADER = ("NAME", "CPU(cores)", "MEMORY(bytes)")
_NOT_YET = "error: metrics not available yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopArguments:
    name: str = ""
    all_namespaces: bool = False
    selector: str = ""
    field_selector: str = ""
    containers: bool = False
    sort_by: str | None = None
    show_capacity: bool = False
    no_headers: bool = False

    @property
    def selection(self) -> Selection:
        return Selection(labels=self.selector, fields=self.field_selector)


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU in thousandths of a core, and memory in bytes."""

    cpu: int
    memory: int

    @classmethod
    def of(cls, quantities: Mapping[str, str]) -> "Usage":
        cpu, memory = (parse_quantity(quantities.get(name, "0")) for name in ("cpu", "memory"))
        return cls(cpu.milli_value(), memory.value())

    @classmethod
    def sum(cls, parts: Iterable["Usage"]) -> "Usage":
        found = tuple(parts)
        return cls(sum(one.cpu for one in found), sum(one.memory for one in found))

    @property
    def cells(self) -> tuple[str, str]:
        return f"{self.cpu}m", f"{self.memory // _MEBIBYTE}Mi"


async def show_nodes(session: ApiSession, arguments: TopArguments) -> int:
    """Print the usage of nodes; the exit code is 1 if it is not known yet."""
    metrics = await _found(session, NODE_METRICS, "", arguments)
    if not metrics:
        print_error(_NOT_YET)
        return 1
    nodes = await _found(session, NODES, "", arguments)
    _print(_NODE_HEADER, node_rows(metrics, nodes, arguments), arguments)
    return 0


async def show_pods(session: ApiSession, arguments: TopArguments) -> int:
    """Print the usage of pods; the exit code is 1 if there are pods and none has usage yet."""
    namespace = "" if arguments.all_namespaces else session.namespace
    metrics = await _found(session, POD_METRICS, namespace, arguments)
    if not metrics:
        if await session.list(PODS, namespace, arguments.selection):
            print_error(_NOT_YET)
            return 1
        click.echo(f"No resources found in {namespace} namespace." if namespace else "No resources found", err=True)
        return 0
    before = (("NAMESPACE",) if arguments.all_namespaces else ()) + (("POD",) if arguments.containers else ())
    _print((*before, *_POD_HEADER), pod_rows(metrics, arguments), arguments)
    return 0


async def _found(session: ApiSession, resource: Resource, namespace: str, arguments: TopArguments) -> list[Document]:
    if arguments.name:
        return [await session.get(resource, namespace, arguments.name)]
    return await session.list(resource, namespace, arguments.selection)


def node_rows(metrics: Sequence[Document], nodes: Sequence[Document], arguments: TopArguments) -> list[Row]:
    """A row per node with metrics, then the nodes without."""
    part = "capacity" if arguments.show_capacity else "allocatable"
    available = {node["metadata"]["name"]: Usage.of(node.get("status", {}).get(part, {})) for node in nodes}
    rows: list[Row] = []
    for one in _sorted(metrics, {one["metadata"]["name"]: Usage.of(one["usage"]) for one in metrics}, arguments):
        name, usage = one["metadata"]["name"], Usage.of(one["usage"])
        whole = available.pop(name, Usage(0, 0))
        cpu, memory = usage.cells
        rows.append((name, cpu, _percent(usage.cpu, whole.cpu), memory, _percent(usage.memory, whole.memory)))
    return rows + [(name, *[_UNKNOWN] * 4) for name in sorted(available)]


def pod_rows(metrics: Sequence[Document], arguments: TopArguments) -> list[Row]:
    """A row per pod, or one per container."""
    usages = {_key(pod): Usage.sum(Usage.of(container["usage"]) for container in pod["containers"]) for pod in metrics}
    rows: list[Row] = []
    for pod in _sorted(metrics, usages, arguments):
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        before = (namespace,) if arguments.all_namespaces else ()
        if not arguments.containers:
            rows.append((*before, name, *usages[_key(pod)].cells))
            continue
        parts = {container["name"]: Usage.of(container["usage"]) for container in pod["containers"]}
        rows += [(*before, name, part, *parts[part].cells) for part in sorted(parts)]
    return rows


def _sorted(metrics: Sequence[Document], usages: Mapping[str, Usage], arguments: TopArguments) -> list[Document]:
    by_name = sorted(metrics, key=lambda one: (one["metadata"].get("namespace", ""), one["metadata"]["name"]))
    by = arguments.sort_by
    return sorted(by_name, key=lambda one: -int(getattr(usages[_key(one)], by))) if by else by_name


def _key(one: Document) -> str:
    namespace, name = one["metadata"].get("namespace", ""), one["metadata"]["name"]
    return f"{namespace}/{name}" if namespace else str(name)


def _percent(used: int, whole: int) -> str:
    return f"{int(used / whole * 100)}%" if whole else _UNKNOWN


def _print(header: Row, rows: Sequence[Row], arguments: TopArguments) -> None:
    shown = [tuple(cell_text(cell) for cell in row) for row in rows]
    # kubectl pads the last column too.
    lines, _ = align_rows([(*row, "") for row in ([] if arguments.no_headers else [header]) + shown])
    for line in lines:
        click.echo(line)
