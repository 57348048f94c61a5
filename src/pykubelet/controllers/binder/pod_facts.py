"""What the scheduler wants to know of a pod, worked out once: its needs, ports and affinities.

Pure. Upstream: PodInfo in pkg/scheduler/framework/types.go, AffinityTerm in k8s.io/kube-scheduler/framework,
pkg/scheduler/util/pod_resources.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from pykubelet.api.generated.core import Container, Pod, PodAffinityTerm
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.pod_requests import CPU, MEMORY, HostPort, host_ports, pod_requests
from pykubelet.api.selector import NOTHING, Selector, SelectorError, selector_from_object

# What a container that asks for nothing is thought to use when nodes are compared.
_USUAL_REQUESTS = {CPU: "100m", MEMORY: "200Mi"}

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Term:
    """Pods that another pod wants near, or not near; near is a node with the same value of a label."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int = 0
    """Of a wish; below zero where pods are shunned. Demands have none."""

    def matches(self, pod: Pod, namespace_labels: Labels) -> bool:
        """Whether this is about a pod, whose namespace has these labels."""
        is_in = pod.metadata.namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return is_in and self.selector.matches(pod.metadata.labels)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod and what follows from its spec."""

    pod: Pod
    requests: Mapping[str, int]
    usual_requests: Mapping[str, int]
    """The same, but containers that ask for nothing count with what is usual."""
    ports: tuple[HostPort, ...]
    attracted: tuple[Term, ...]
    """Pods that must be near."""
    repelled: tuple[Term, ...]
    """Pods that must not be near."""
    wishes: tuple[Term, ...]


def facts_of(pod: Pod) -> PodFacts:
    """The facts of a pod."""
    affinity = pod.spec.affinity
    near = affinity.pod_affinity if affinity is not None else None
    away = affinity.pod_anti_affinity if affinity is not None else None
    wishes = [
        _term(pod, each.pod_affinity_term, sign * each.weight)
        for side, sign in ((near, 1), (away, -1))
        if side is not None
        for each in side.preferred_during_scheduling_ignored_during_execution
    ]
    return PodFacts(
        pod=pod,
        requests=pod_requests(pod),
        usual_requests=_usual_requests(pod),
        ports=host_ports(pod),
        attracted=_terms(pod, near.required_during_scheduling_ignored_during_execution if near is not None else ()),
        repelled=_terms(pod, away.required_during_scheduling_ignored_during_execution if away is not None else ()),
        wishes=tuple(wishes),
    )


def priority_of(pod: Pod) -> int:
    """The priority of a pod; 0 if it has none."""
    return pod.spec.priority or 0


def selector_of(selector: LabelSelector | None) -> Selector:
    """What a selector selects; one that makes no sense selects nothing."""
    try:
        return selector_from_object(selector)
    except SelectorError:
        return NOTHING


def _terms(pod: Pod, terms: Iterable[PodAffinityTerm]) -> tuple[Term, ...]:
    return tuple(_term(pod, term) for term in terms)


def _term(pod: Pod, term: PodAffinityTerm, weight: int = 0) -> Term:
    # Without any word on namespaces the pod's own is meant.
    own = (pod.metadata.namespace,) if term.namespace_selector is None else ()
    return Term(
        topology_key=term.topology_key,
        selector=selector_of(term.label_selector),
        namespaces=frozenset(term.namespaces or own),
        namespace_selector=selector_of(term.namespace_selector),
        weight=weight,
    )


def _usual_requests(pod: Pod) -> Mapping[str, int]:
    spec = replace(
        pod.spec,
        containers=tuple(map(_with_usual, pod.spec.containers)),
        init_containers=tuple(map(_with_usual, pod.spec.init_containers)),
    )
    return pod_requests(replace(pod, spec=spec))


def _with_usual(container: Container) -> Container:
    requests = {**_USUAL_REQUESTS, **container.resources.requests}
    return replace(container, resources=replace(container.resources, requests=requests))
