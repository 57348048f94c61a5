"""The pods this node should run, and the mirrors of its static pods."""

from pykubelet.agent.pods.admitter import Admitter, NodeConditions
from pykubelet.agent.pods.first_mirrors import FirstMirrors
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
from pykubelet.agent.pods.sysctls import SysctlAllowlist, kernel_version, safe_sysctls

__all__ = [
    "FAILED_MIRROR_POD",
    "Admitter",
    "AllPods",
    "FirstMirrors",
    "MirrorCalls",
    "MirrorClient",
    "MirrorKeeper",
    "MirrorPlan",
    "NameTaken",
    "NodeConditions",
    "NodeLookup",
    "NodeUidUnknown",
    "PodClient",
    "PodManager",
    "PodPair",
    "ReferenceRegistry",
    "SysctlAllowlist",
    "UidTranslations",
    "is_mirror_pod",
    "is_mirror_pod_of",
    "is_static_pod",
    "kernel_version",
    "mirror_of",
    "plan_mirror",
    "safe_sysctls",
]
