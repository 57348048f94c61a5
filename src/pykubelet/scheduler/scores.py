"""Score plugins: choose the best of the nodes that fit a pod.

Each plugin scores every node from 0 to 100; the sum with upstream's weights decides.

Upstream: pkg/scheduler/apis/config/v1/default_plugins.go,
pkg/scheduler/framework/plugins/noderesources/least_allocated.go,
pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go,
pkg/scheduler/framework/plugins/imagelocality/image_locality.go
"""

from collections.abc import Mapping, Sequence

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import CPU, MEMORY
from pykubelet.api.scheduling import is_tolerated, term_matches
from pykubelet.scheduler.cache import NodeInfo, PodInfo, SchedulerCache
from pykubelet.scheduler.interpodaffinity import affinity_scores
from pykubelet.scheduler.podtopologyspread import spread_scores

MAX_SCORE = 100
_COMPARED = (CPU, MEMORY)
_MEBIBYTE = 1024 * 1024
# Image sizes below the first count as nothing, sizes above the second count as the second.
_SMALL_IMAGE, _LARGE_IMAGE = 23 * _MEBIBYTE, 1000 * _MEBIBYTE

WEIGHTS = {
    "taints": 3,
    "node affinity": 2,
    "spread": 2,
    "pod affinity": 2,
    "least allocated": 1,
    "balance": 1,
    "images": 1,
}


def prioritize_nodes(pod_info: PodInfo, feasible: Sequence[NodeInfo], cache: SchedulerCache) -> list[int]:
    plugin_scores: Mapping[str, Sequence[int]] = {
        "taints": _scaled([_repelling_taints(pod_info.pod, node_info) for node_info in feasible], is_reversed=True),
        "node affinity": _scaled([_node_preference(pod_info.pod, node_info) for node_info in feasible]),
        "spread": spread_scores(pod_info.pod, feasible, cache),
        "pod affinity": affinity_scores(pod_info, feasible, cache),
        "least allocated": [least_allocated(pod_info, node_info) for node_info in feasible],
        "balance": [balanced_allocation(pod_info, node_info) for node_info in feasible],
        "images": [image_locality(pod_info.pod, node_info, cache) for node_info in feasible],
    }
    return [
        sum(WEIGHTS[name] * scores[index] for name, scores in plugin_scores.items()) for index in range(len(feasible))
    ]


def select_host(pod_info: PodInfo, feasible: Sequence[NodeInfo], cache: SchedulerCache) -> str:
    """The name of the best node; on a tie the one with the fewest pods, then by name (upstream: at random)."""
    if len(feasible) == 1:
        return feasible[0].name
    scores = prioritize_nodes(pod_info, feasible, cache)
    _, _, name = min(
        (-score, len(node_info.pods), node_info.name) for score, node_info in zip(scores, feasible, strict=True)
    )
    return name


def least_allocated(pod_info: PodInfo, node_info: NodeInfo) -> int:
    found = []
    for name in _COMPARED:
        total = node_info.allocatable.get(name, 0)
        used = node_info.non_zero_requested[name] + pod_info.non_zero_requests.get(name, 0)
        if total > 0:
            found.append(max(total - used, 0) * MAX_SCORE // total)
    return sum(found) // len(found) if found else 0


def balanced_allocation(pod_info: PodInfo, node_info: NodeInfo) -> int:
    """Scores how evenly CPU and memory would be used; 0 for a pod without requests."""
    if not any(pod_info.requests.get(name, 0) for name in _COMPARED):
        return 0
    shares = [
        min((node_info.requested[name] + pod_info.requests.get(name, 0)) / total, 1.0)
        for name in _COMPARED
        if (total := node_info.allocatable.get(name, 0)) > 0
    ]
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == len(_COMPARED) else 0.0
    return int((1 - deviation) * MAX_SCORE)


def image_locality(pod: Pod, node_info: NodeInfo, cache: SchedulerCache) -> int:
    """Scores the size of the images already present.

    Sizes are scaled by the share of nodes that have the image, so that a single node does not attract all its pods.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    names = (_with_tag(container.image) for container in containers)
    there = sum(
        int(node_info.image_sizes[name] * (cache.image_nodes[name] / len(cache.nodes)))
        for name in names
        if name in node_info.image_sizes
    )
    most = _LARGE_IMAGE * len(containers)
    return MAX_SCORE * (min(max(there, _SMALL_IMAGE), most) - _SMALL_IMAGE) // (most - _SMALL_IMAGE)


def _repelling_taints(pod: Pod, node_info: NodeInfo) -> int:
    taints = (taint for taint in node_info.node.spec.taints if taint.effect == "PreferNoSchedule")
    return sum(not is_tolerated(taint, pod.spec.tolerations) for taint in taints)


def _node_preference(pod: Pod, node_info: NodeInfo) -> int:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    preferred_terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ()
    return sum(term.weight for term in preferred_terms if term_matches(term.preference, node_info.node))


def _scaled(values: Sequence[int], *, is_reversed: bool = False) -> list[int]:
    """Normalizes values to 0..100; if reversed, the highest value gives 0."""
    most = max(values, default=0)
    scaled = [MAX_SCORE * value // most if most else 0 for value in values]
    return [MAX_SCORE - value for value in scaled] if is_reversed else scaled


def _with_tag(image: str) -> str:
    """The image name with its tag, as nodes list it."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
