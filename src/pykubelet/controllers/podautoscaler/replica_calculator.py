"""Calculates how many replicas keep the usage of pods at a target.

Pods that are not ready count as idle if the others are above the target, and pods without metrics count as idle then
and as fully used if the others are below it, so that neither makes the workload oscillate. Usage is in thousandths.

Upstream: pkg/controller/podautoscaler/replica_calculator.go, pkg/controller/podautoscaler/metrics/utilization.go
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import condition_of, is_restartable_init_container
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.times import parse_time

CPU = "cpu"
# kube-controller-manager's defaults of --horizontal-pod-autoscaler-tolerance, -cpu-initialization-period and
# -initial-readiness-delay.
TOLERANCE = 0.1
CPU_INITIALIZATION_PERIOD = timedelta(minutes=5)
INITIAL_READINESS_DELAY = timedelta(seconds=30)


class MetricError(Exception):
    """A metric gives no number of replicas; the message is Kubernetes' own."""


class PodMetric(NamedTuple):
    """The usage of a pod in thousandths, the end of the window it was measured over, and that window's length."""

    value: int
    at: datetime
    window: timedelta


PodMetrics = Mapping[str, PodMetric]
"""The usage of pods by name."""


class Tolerances(NamedTuple):
    """How far usage may be from its target, as a part of it, before the number of replicas changes."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def is_within(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class ReplicaProposal(NamedTuple):
    """The replicas for a metric, its average per pod in thousandths, and in percent of the request if that counts."""

    replicas: int
    average: int
    utilization: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPods:
    """The pods of a workload with their usage of one resource, in one container if `container` names one."""

    resource: str
    container: str = ""
    pods: Iterable[Pod]
    metrics: PodMetrics
    now: datetime


class PodGroups(NamedTuple):
    """How pods count: the number of ready ones, and the names of the others."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    """Pods without metrics."""
    ignored: frozenset[str]
    """Pods that are being deleted or have failed."""


class _Usage(NamedTuple):
    """Usage as a ratio to its target, on average per pod, and in percent of the requests."""

    ratio: float
    average: int
    utilization: int | None = None


def replicas_for_utilization(
    current: int, target_percent: int, observed: ObservedPods, tolerances: Tolerances
) -> ReplicaProposal:
    """The replicas that bring the usage to a percentage of the pods' requests."""
    groups, measured = _measured(observed)
    requests = {pod.metadata.name: pod_request(pod, observed.resource, observed.container) for pod in observed.pods}

    def usage(values: Mapping[str, int]) -> _Usage:
        known = [name for name in values if name in requests]
        total, requested = sum(values[name] for name in known), sum(requests[name] for name in known)
        if requested == 0:
            raise MetricError("no metrics returned matched known pods")
        utilization = total * 100 // requested
        return _Usage(utilization / target_percent, total // len(known), utilization)

    def full(name: str) -> int:
        # A pod may use more than its request if that is the target.
        return requests[name] * max(100, target_percent) // 100

    return _proposal(current, groups, measured, usage, full, tolerances)


def replicas_for_average(current: int, target: int, observed: ObservedPods, tolerances: Tolerances) -> ReplicaProposal:
    """The replicas that bring the average usage of a pod to a value in thousandths."""
    groups, measured = _measured(observed)

    def usage(values: Mapping[str, int]) -> _Usage:
        average = sum(values.values()) // len(values)
        return _Usage(average / target, average)

    return _proposal(current, groups, measured, usage, lambda _name: target, tolerances)


def _measured(observed: ObservedPods) -> tuple[PodGroups, dict[str, int]]:
    """The groups of the pods, and the usage of those that count."""
    if not observed.pods:
        raise MetricError("No pods returned by selector while calculating replica count")
    groups = group_pods(observed)
    left_out = groups.ignored | groups.unready
    measured = {name: metric.value for name, metric in observed.metrics.items() if name not in left_out}
    if not measured:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    return groups, measured


def _proposal(
    current: int,
    groups: PodGroups,
    measured: dict[str, int],
    usage: Callable[[Mapping[str, int]], _Usage],
    full: Callable[[str], int],
    tolerances: Tolerances,
) -> ReplicaProposal:
    found = usage(measured)
    unchanged = ReplicaProposal(current, found.average, found.utilization)
    counts_unready = bool(groups.unready) and found.ratio > 1.0
    if not counts_unready and not groups.missing:
        if tolerances.is_within(found.ratio):
            return unchanged
        return unchanged._replace(replicas=math.ceil(found.ratio * groups.ready))
    assumed = dict(measured)
    if found.ratio < 1.0:
        assumed |= {name: full(name) for name in groups.missing}
    elif found.ratio > 1.0:
        assumed |= dict.fromkeys(groups.missing, 0)
    if counts_unready:
        assumed |= dict.fromkeys(groups.unready, 0)
    ratio = usage(assumed).ratio
    has_turned = (found.ratio < 1.0 < ratio) or (ratio < 1.0 < found.ratio)
    if tolerances.is_within(ratio) or has_turned:
        return unchanged
    replicas = math.ceil(ratio * len(assumed))
    if (ratio < 1.0 and replicas > current) or (ratio > 1.0 and replicas < current):
        return unchanged
    return unchanged._replace(replicas=replicas)


def group_pods(observed: ObservedPods) -> PodGroups:
    ready = 0
    unready, missing, ignored = set[str](), set[str](), set[str]()
    for pod in observed.pods:
        name, phase = pod.metadata.name, pod.status.phase
        metric = observed.metrics.get(name)
        if pod.metadata.deletion_timestamp is not None or phase == "Failed":
            ignored.add(name)
        elif phase == "Pending":
            unready.add(name)
        elif metric is None:
            missing.add(name)
        elif observed.resource == CPU and is_starting(pod, metric, observed.now):
            unready.add(name)
        else:
            ready += 1
    return PodGroups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def is_starting(pod: Pod, metric: PodMetric, now: datetime) -> bool:
    """Whether the CPU usage of a pod is that of its start: it was measured before it was ready, or it never was ready."""
    condition, started = condition_of(pod, "Ready"), pod.status.start_time
    if condition is None or not started or not condition.last_transition_time:
        return True
    since, is_unready = parse_time(condition.last_transition_time), condition.status == "False"
    if parse_time(started) + CPU_INITIALIZATION_PERIOD > now:
        return is_unready or metric.at < since + metric.window
    return is_unready and parse_time(started) + INITIAL_READINESS_DELAY > since


def pod_request(pod: Pod, resource: str, container: str = "") -> int:
    """The thousandths of a resource that a pod requests, or one of its containers; MetricError if one has no request."""
    whole = pod.spec.resources.requests.get(resource) if pod.spec.resources is not None else None
    if whole is not None and not container:
        return parse_quantity(whole).milli_value()
    restartable = [each for each in pod.spec.init_containers if is_restartable_init_container(each)]
    total = 0
    for each in (*pod.spec.containers, *restartable):
        if container in ("", each.name):
            request = each.resources.requests.get(resource)
            if request is None:
                name = pod.metadata.name
                raise MetricError(f"missing request for {resource} in container {each.name} of Pod {name}")
            total += parse_quantity(request).milli_value()
    return total
