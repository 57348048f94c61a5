"""What this node reports about its pods."""

from pykubelet.agent.status.api_view import ApiView, KnownPods
from pykubelet.agent.status.cache import VersionedStatus
from pykubelet.agent.status.collaborators import ApiClient, PodDeletionSafety, PodManager, StatusObserver
from pykubelet.agent.status.conditions import (
    containers_ready,
    need_to_reconcile_pod_readiness,
    pod_initialized,
    pod_ready,
    pod_ready_to_start_containers,
    pod_scheduled,
)
from pykubelet.agent.status.equality import equal_by_node
from pykubelet.agent.status.manager import StatusManager
from pykubelet.agent.status.merge import merge_status
from pykubelet.agent.status.normalize import normalize_status
from pykubelet.agent.status.patch import status_patch
from pykubelet.agent.status.resize import ResizeConditions
from pykubelet.agent.status.terminate import final_status, has_initialized
from pykubelet.agent.status.transitions import illegal_transition, latch_phase

__all__ = [
    "ApiClient",
    "ApiView",
    "KnownPods",
    "PodDeletionSafety",
    "PodManager",
    "ResizeConditions",
    "StatusManager",
    "StatusObserver",
    "VersionedStatus",
    "containers_ready",
    "equal_by_node",
    "final_status",
    "has_initialized",
    "illegal_transition",
    "latch_phase",
    "merge_status",
    "need_to_reconcile_pod_readiness",
    "normalize_status",
    "pod_initialized",
    "pod_ready",
    "pod_ready_to_start_containers",
    "pod_scheduled",
    "status_patch",
]
