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
from pykubelet.agent.status.container_statuses import Sightings, StartFailure
from pykubelet.agent.status.deadline import deadline_at
from pykubelet.agent.status.equality import equal_by_node
from pykubelet.agent.status.generate import Known, generate_status
from pykubelet.agent.status.manager import StatusManager
from pykubelet.agent.status.merge import merge_status
from pykubelet.agent.status.normalize import normalize_status
from pykubelet.agent.status.patch import status_patch
from pykubelet.agent.status.phase import pod_phase
from pykubelet.agent.status.reason_cache import ReasonCache
from pykubelet.agent.status.reports import Reports
from pykubelet.agent.status.resize import ResizeConditions
from pykubelet.agent.status.terminate import final_status, has_initialized
from pykubelet.agent.status.transitions import illegal_transition, latch_phase

__all__ = [
    "ApiClient",
    "ApiView",
    "Known",
    "KnownPods",
    "PodDeletionSafety",
    "PodManager",
    "ReasonCache",
    "Reports",
    "ResizeConditions",
    "Sightings",
    "StartFailure",
    "StatusManager",
    "StatusObserver",
    "VersionedStatus",
    "containers_ready",
    "deadline_at",
    "equal_by_node",
    "final_status",
    "generate_status",
    "has_initialized",
    "illegal_transition",
    "latch_phase",
    "merge_status",
    "need_to_reconcile_pod_readiness",
    "normalize_status",
    "pod_initialized",
    "pod_phase",
    "pod_ready",
    "pod_ready_to_start_containers",
    "pod_scheduled",
    "status_patch",
]
