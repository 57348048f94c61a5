"""Values by which a node describes its pods to its page; the kubelet makes them, the page shows them."""

from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from pykubelet.api.generated.core import Pod, PodStatus


class PodProgress(Struct, frozen=True, kw_only=True):
    """The progress of a pod through this node; empty for a pod of another node."""

    source: str = ""
    """The source that supplies the pod."""
    worker: str = ""
    """The state of its pod worker."""
    has_mirror: bool = False
    is_unsent: bool = False
    """Whether its newest status has not been sent yet."""
    waits: str = ""
    """What the pod has waited for longest."""


NOT_HERE = PodProgress()


class NodePod(NamedTuple):
    """A pod of this node with its newest status."""

    pod: Pod
    status: PodStatus
    progress: PodProgress


class SourceState(Struct, frozen=True, rename="camel"):
    """A source of pods, and whether it has delivered all its pods."""

    name: str
    is_ready: bool


class UsageReading(Struct, frozen=True):
    """The CPU time a pod has used so far, and its present memory; None if unknown."""

    at: datetime
    cpu_nanoseconds: int | None
    memory_bytes: int | None


def pod_key(namespace: str, name: str) -> str:
    """The key of a pod, as `namespace/name`; a static pod and its mirror share it."""
    return f"{namespace}/{name}"
