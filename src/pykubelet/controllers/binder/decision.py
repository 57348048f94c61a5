"""Which node a pod goes to; if none, what to tell its owner and what to wait for.

Pure. The messages are upstream's. It also says what preemption could do; nothing is preempted here, so where a pod of
lower priority is in the way that is what it says. Upstream: schedule_one.go and framework/types.go (FitError) in
pkg/scheduler, pkg/scheduler/framework/preemption.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.api.generated.core import PodSpec
from pykubelet.api.node_fit import NODE_NAME_FIELD
from pykubelet.controllers.binder.cluster_view import ClusterView
from pykubelet.controllers.binder.filters import Help, Refusal, question_of, refusal
from pykubelet.controllers.binder.pod_facts import PodFacts, priority_of
from pykubelet.controllers.binder.scores import best_node

NO_NODES = "no nodes available to schedule pods"
_TERMS_CONFLICT = "pod affinity terms conflict"
_NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
_NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NOT_SUPPORTED = "Preemption is not supported"
_NEVER = "not eligible due to preemptionPolicy=Never."


@dataclass(frozen=True, slots=True)
class Refused:
    """No node takes the pod."""

    message: str
    help: frozenset[Help]
    """Changes after which to try again."""


def decide(facts: PodFacts, view: ClusterView) -> str | Refused:
    """The name of the best node for a pod, or why there is none."""
    if not view.nodes:
        return Refused(NO_NODES, frozenset({Help.NODE}))
    named = named_nodes(facts.pod.spec)
    if named is not None and not named:
        return Refused(_message(facts, view, {}, _TERMS_CONFLICT), frozenset())
    question = question_of(facts, view)
    candidates = view.nodes if named is None else {name: view.nodes[name] for name in sorted(named & set(view.nodes))}
    refusals = {name: found for name, state in candidates.items() if (found := refusal(question, state)) is not None}
    fitting = [state for name, state in candidates.items() if name not in refusals]
    if fitting:
        return best_node(facts, fitting, view)
    help_ = frozenset({Help.NODE}).union(*(each.help for each in refusals.values()))
    return Refused(_message(facts, view, refusals), help_)


def named_nodes(spec: PodSpec) -> frozenset[str] | None:
    """The nodes that a pod's required affinity names, as that of a DaemonSet's pod does; None if any may do."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None or not required.node_selector_terms:
        return None
    found = frozenset[str]()
    for term in required.node_selector_terms:
        lists = [
            frozenset(one.values) for one in term.match_fields if (one.key, one.operator) == (NODE_NAME_FIELD, "In")
        ]
        if not lists:
            return None
        found |= frozenset.intersection(*lists)
    return found


def _message(facts: PodFacts, view: ClusterView, refusals: Mapping[str, Refusal], first: str = "") -> str:
    count = len(view.nodes)
    reasons = Counter(reason for each in refusals.values() for reason in each.reasons)
    reasons[_NOT_NAMED] += count - len(refusals)
    told = f"0/{count} nodes are available: {first or _histogram(reasons)}."
    if facts.pod.spec.preemption_policy == "Never":
        return f"{told} preemption: {_NEVER}"
    return f"{told} preemption: 0/{count} nodes are available: {_histogram(_preemption(facts, view, refusals))}."


def _preemption(facts: PodFacts, view: ClusterView, refusals: Mapping[str, Refusal]) -> Counter[str]:
    """What could be had by sending other pods away, for each node."""
    reasons, priority = Counter[str](), priority_of(facts.pod)
    for name, each in refusals.items():
        if each.is_resolvable:
            has_victims = any(priority_of(other.pod) < priority for other in view.nodes[name].pods.values())
            reasons[_NOT_SUPPORTED if has_victims else _NO_VICTIMS] += 1
    reasons[_NOT_HELPFUL] = len(view.nodes) - reasons.total()
    return reasons


def _histogram(reasons: Counter[str]) -> str:
    # Sorted as texts, numbers and all, as upstream has it.
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
