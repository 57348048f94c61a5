"""The pods this node should run, and the mirrors of its static pods."""

from pykubelet.agent.pods.manager import (
    AllPods,
    MirrorCalls,
    PodManager,
    PodPair,
    ReferenceRegistry,
    UidTranslations,
    is_mirror_pod,
    is_mirror_pod_of,
    is_static_pod,
)
from pykubelet.agent.pods.mirror import (
    FAILED_MIRROR_POD,
    MirrorClient,
    MirrorKeeper,
    NameTaken,
    NodeLookup,
    NodeUidUnknown,
    PodClient,
)
from pykubelet.agent.pods.mirror_plan import MirrorPlan, mirror_of, plan_mirror

__all__ = [
    "FAILED_MIRROR_POD",
    "AllPods",
    "MirrorCalls",
    "MirrorClient",
    "MirrorKeeper",
    "MirrorPlan",
    "NameTaken",
    "NodeLookup",
    "NodeUidUnknown",
    "PodClient",
    "PodManager",
    "PodPair",
    "ReferenceRegistry",
    "UidTranslations",
    "is_mirror_pod",
    "is_mirror_pod_of",
    "is_static_pod",
    "mirror_of",
    "plan_mirror",
]
