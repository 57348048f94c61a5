"""Which pods have to go so that a critical one fits.

Pure. In: what is missing, and who is on the node. Out: as few pods as possible, the least important first: a guaranteed
pod goes only if all others together would not do. Upstream: pkg/kubelet/preemption/preemption.go.
"""

from collections.abc import Iterable, Mapping, Sequence

from pykubelet.api.generated.core import Pod
from pykubelet.api.pod_requests import CPU, MEMORY, PODS, pod_requests
from pykubelet.api.pods import may_preempt
from pykubelet.api.quality_of_service import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from pykubelet.api.wire import to_document

Missing = Mapping[str, int]
"""How much of each resource has to be freed."""


class NoVictims(Exception):
    """Even without every pod that may go, it would not be enough."""


def quality_of(pod: Pod) -> str:
    """The quality of service class of a pod, which the API server has computed unless the pod is static."""
    return pod.status.qos_class or qos_class(to_document(pod.spec))


def victims(preemptor: Pod, others: Iterable[Pod], missing: Missing) -> tuple[Pod, ...]:
    """The pods to kill; NoVictims if no set of them frees enough."""
    kinds: dict[str, list[Pod]] = {BEST_EFFORT: [], BURSTABLE: [], GUARANTEED: []}
    for pod in others:
        if may_preempt(preemptor, pod):
            kinds[quality_of(pod)].append(pod)
    best_effort, burstable, guaranteed = kinds.values()
    if left := _without(missing, [*best_effort, *burstable, *guaranteed]):
        raise NoVictims(f"no set of running pods found to reclaim resources: {_shown(left)}")
    # Each class gives only what the classes below it cannot.
    first = _nearest(guaranteed, _without(missing, [*best_effort, *burstable]))
    second = _nearest(burstable, _without(missing, [*best_effort, *first]))
    third = _nearest(best_effort, _without(missing, [*second, *first]))
    return (*third, *second, *first)


def _nearest(pods: Sequence[Pod], missing: Missing) -> list[Pod]:
    """Pods that together free what is missing, each time the one that comes nearest to what is still missing."""
    candidates, chosen = list(pods), list[Pod]()
    while missing:
        best = min(candidates, key=lambda pod: (_distance(missing, pod), *_size(pod)))
        candidates.remove(best)
        chosen.append(best)
        missing = _without(missing, [best])
    return chosen


def _without(missing: Missing, pods: Sequence[Pod]) -> Missing:
    """What is still missing once these pods are gone."""
    freed = [(name, needed - sum(_request(pod, name) for pod in pods)) for name, needed in missing.items()]
    return {name: needed for name, needed in freed if needed > 0}


def _distance(missing: Missing, pod: Pod) -> float:
    """How much would still be missing, each resource weighing the same."""
    left = [(needed, needed - _request(pod, name)) for name, needed in missing.items()]
    return sum((rest / needed) ** 2 for needed, rest in left if rest > 0)


def _size(pod: Pod) -> tuple[int, int]:
    return _request(pod, MEMORY), _request(pod, CPU)


def _request(pod: Pod, resource: str) -> int:
    return 1 if resource == PODS else pod_requests(pod).get(resource, 0)


def _shown(missing: Missing) -> str:
    return "[" + "".join(f"(res: {name}, q: {needed}), " for name, needed in missing.items()) + "]"
