"""Which of the nodes that fit is best for a pod.

Pure. Every view gives each node 0 to 100, the views have upstream's weights, the sum decides. Upstream: the Score
plugins in pkg/scheduler/framework/plugins and their weights in pkg/scheduler/apis/config/v1/default_plugins.go.
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
# An image smaller than this is pulled quickly, a larger one than this is as good as any large one.
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


def prioritize_nodes(facts: PodInfo, fitting: Sequence[NodeInfo], view: SchedulerCache) -> list[int]:
    """The score of each node that fits, in their order."""
    views: Mapping[str, Sequence[int]] = {
        "taints": _scaled([_repelling_taints(facts.pod, state) for state in fitting], is_reversed=True),
        "node affinity": _scaled([_node_preference(facts.pod, state) for state in fitting]),
        "spread": spread_scores(facts.pod, fitting, view),
        "pod affinity": affinity_scores(facts, fitting, view),
        "least allocated": [least_allocated(facts, state) for state in fitting],
        "balance": [balanced_allocation(facts, state) for state in fitting],
        "images": [image_locality(facts.pod, state, view) for state in fitting],
    }
    return [sum(WEIGHTS[name] * scores[index] for name, scores in views.items()) for index in range(len(fitting))]


def select_host(facts: PodInfo, fitting: Sequence[NodeInfo], view: SchedulerCache) -> str:
    """The name of the best node. Among equals the one with fewest pods, then by name: upstream throws dice."""
    if len(fitting) == 1:
        return fitting[0].name
    scores = prioritize_nodes(facts, fitting, view)
    _, _, name = min((-score, len(state.pods), state.name) for score, state in zip(scores, fitting, strict=True))
    return name


def least_allocated(facts: PodInfo, state: NodeInfo) -> int:
    """How much of the node would be left."""
    found = []
    for name in _COMPARED:
        total = state.allocatable.get(name, 0)
        used = state.usually_used[name] + facts.usual_requests.get(name, 0)
        if total > 0:
            found.append(max(total - used, 0) * MAX_SCORE // total)
    return sum(found) // len(found) if found else 0


def balanced_allocation(facts: PodInfo, state: NodeInfo) -> int:
    """How alike the used shares of the resources would be; no matter for a pod that asks for nothing."""
    if not any(facts.requests.get(name, 0) for name in _COMPARED):
        return 0
    shares = [
        min((state.used[name] + facts.requests.get(name, 0)) / total, 1.0)
        for name in _COMPARED
        if (total := state.allocatable.get(name, 0)) > 0
    ]
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == len(_COMPARED) else 0.0
    return int((1 - deviation) * MAX_SCORE)


def image_locality(pod: Pod, state: NodeInfo, view: SchedulerCache) -> int:
    """How much need not be pulled; an image counts less if few nodes have it, lest they get all its pods."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    names = (_with_tag(container.image) for container in containers)
    there = sum(
        int(state.image_sizes[name] * (view.image_nodes[name] / len(view.nodes)))
        for name in names
        if name in state.image_sizes
    )
    most = _LARGE_IMAGE * len(containers)
    return MAX_SCORE * (min(max(there, _SMALL_IMAGE), most) - _SMALL_IMAGE) // (most - _SMALL_IMAGE)


def _repelling_taints(pod: Pod, state: NodeInfo) -> int:
    taints = (taint for taint in state.node.spec.taints if taint.effect == "PreferNoSchedule")
    return sum(not is_tolerated(taint, pod.spec.tolerations) for taint in taints)


def _node_preference(pod: Pod, state: NodeInfo) -> int:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    wishes = affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ()
    return sum(wish.weight for wish in wishes if term_matches(wish.preference, state.node))


def _scaled(values: Sequence[int], *, is_reversed: bool = False) -> list[int]:
    """The values from 0 to 100, the highest being 100; reversed, the highest is 0."""
    most = max(values, default=0)
    scaled = [MAX_SCORE * value // most if most else 0 for value in values]
    return [MAX_SCORE - value for value in scaled] if is_reversed else scaled


def _with_tag(image: str) -> str:
    """The name of an image as nodes list it."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
