"""Builds what the scheduler sees in one line: `view(nodes={"n1": {}}, pods={"n1": [...]})`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.serializer import Document, from_document
from pykubelet.scheduler.cache import PodInfo, SchedulerCache, new_pod_info
from pykubelet.scheduler.nominator import Nominator
from pykubelet.scheduler.preemption import preempt
from pykubelet.scheduler.schedule_one import FitError, full_message

PLENTY = {"cpu": "100", "memory": "100Gi", "pods": "110"}


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    images: Mapping[str, int] | None = None,
    **spec: Any,
) -> Node:
    status: Document = {
        "allocatable": PLENTY if allocatable is None else {"pods": "110", **allocatable},
        "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
    }
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels or {}}
    return from_document({"metadata": metadata, "spec": spec, "status": status}, Node)


def pod(
    name: str = "p",
    *,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    requests: Sequence[Mapping[str, str]] = (),
    containers: Sequence[Document] | None = None,
    **spec: Any,
) -> Pod:
    """A pod with a container for each of the requests, or with these containers."""
    made = [{"name": f"c{index}", "resources": {"requests": each}} for index, each in enumerate(requests)]
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "labels": labels or {}}
    document = {"metadata": metadata, "spec": {"containers": made if containers is None else containers, **spec}}
    return from_document(document, Pod)


def facts(name: str = "p", **fields: Any) -> PodInfo:
    return new_pod_info(pod(name, **fields))


def view(nodes: Sequence[Node], pods: Mapping[str, Sequence[Pod]] | None = None) -> SchedulerCache:
    """Nodes, and pods on them."""
    made = SchedulerCache()
    for each in nodes:
        made.put_node(each)
    for name, listed in (pods or {}).items():
        for each_pod in listed:
            made.put_pod(each_pod, name)
    return made


def refusal(found: str | FitError) -> str:
    """The whole message about a pod that no node can have."""
    assert isinstance(found, FitError)
    assert found.cycle_state is not None
    return full_message(found, preempt(found.cycle_state, found.statuses, Nominator(), ()))


def labelled(count: int, prefix: str, **labels: str) -> list[Pod]:
    """Pods with the same labels, `count` of them."""
    return [pod(f"{prefix}{number}", labels=labels) for number in range(count)]
