"""The HorizontalPodAutoscaler controller: scales workloads so that usage is at its target.

It compares the two every 15 s. The metrics are those of metrics.k8s.io. Metrics of type Pods, Object and External need a custom metrics API, which this
controller does not read: they fail with upstream's reasons, and prevent scaling down.

Upstream: pkg/controller/podautoscaler/horizontal.go, staging/src/k8s.io/client-go/scale/client.go
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.autoscaling import (
    ContainerResourceMetricStatus,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HPAScalingRules,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ResourceMetricStatus,
)
from pykubelet.api.generated.core import Pod
from pykubelet.api.labels import Operator, Selector, SelectorError, parse_selector
from pykubelet.api.quantity import Format, Quantity, parse_quantity
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import HORIZONTAL_POD_AUTOSCALERS, as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.indexer import LabelIndex, ObjectIndex, SelectorIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import ControllerClient
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.ownership import explicit, patch_status
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.podautoscaler.behavior import ScaleHistory, limited_replicas, min_replicas
from pykubelet.controllers.podautoscaler.metrics_client import resource_metrics
from pykubelet.controllers.podautoscaler.replica_calculator import (
    TOLERANCE,
    MetricError,
    ObservedPods,
    ReplicaProposal,
    Tolerances,
    replicas_for_average,
    replicas_for_utilization,
)
from pykubelet.controllers.podautoscaler.status import ABLE, ACTIVE, LIMITED, StatusDraft

log = get_logger(__name__)

SYNC_SECONDS = 15.0
"""kube-controller-manager's default of --horizontal-pod-autoscaler-sync-period."""
_NO_TARGET = "invalid resource metric source: neither an average utilization target nor an average value target was set"
_CUSTOM = "custom metrics API: pykubelet reads only metrics.k8s.io"


class ScaleError(Exception):
    """The target cannot be scaled; the message says why."""


class _Target(NamedTuple):
    """The resource and the Scale of what is scaled."""

    resource: Resource
    scale: Document

    @property
    def replicas(self) -> int:
        return int((self.scale.get("spec") or {}).get("replicas") or 0)

    @property
    def selector(self) -> str:
        return str((self.scale.get("status") or {}).get("selector") or "")


class _Desired(NamedTuple):
    """The replicas that the metrics ask for, the metric that asks for most, and each metric's status."""

    replicas: int
    metric: str
    statuses: tuple[MetricStatus, ...]


class _Workload(NamedTuple):
    """The pods of a target and its replicas."""

    namespace: str
    replicas: int
    selector: str
    pods: Sequence[Pod]


class HorizontalController(KeyedController):
    """Syncs HorizontalPodAutoscalers by key. `pods` finds all pods by label."""

    def __init__(
        self,
        *,
        client: ControllerClient,
        recorder: EventRecorder,
        clock: Clock,
        autoscalers: ObjectIndex[HorizontalPodAutoscaler],
        pods: LabelIndex[Pod],
    ) -> None:
        self._client, self._recorder, self._clock = client, recorder, clock
        self._autoscalers, self._pods = autoscalers, pods
        self._histories: dict[str, ScaleHistory] = {}
        self._selectors: dict[str, Selector] = {}
        self._selecting = SelectorIndex()
        self._kinds: dict[tuple[str, str], Resource] = {}
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(
            HORIZONTAL_POD_AUTOSCALERS, added=self.added, updated=self.updated, deleted=self.deleted
        )

    def added(self, autoscaler: HorizontalPodAutoscaler) -> None:
        self.queue.add(key_of(autoscaler))

    def updated(self, old: HorizontalPodAutoscaler, new: HorizontalPodAutoscaler) -> None:
        """Enqueues a changed spec at once; the status is our own."""
        if old.spec != new.spec or old.metadata.uid != new.metadata.uid:
            self.queue.add(key_of(new))

    def deleted(self, autoscaler: HorizontalPodAutoscaler) -> None:
        key = key_of(autoscaler)
        self._histories.pop(key, None)
        self._selectors.pop(key, None)
        self._selecting.remove(key)

    async def sync(self, key: str) -> None:
        """Scales the target of one autoscaler and updates its status; again after the sync period, whatever happens."""
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None:
            return
        self.queue.add_after(key, SYNC_SECONDS)
        draft = StatusDraft(autoscaler.status, self._clock.now())
        try:
            await self._reconcile(key, autoscaler, draft)
        except (MetricError, ScaleError) as error:
            # Conditions and events say so; the next sync tries again.
            log.debug("autoscaler not reconciled", autoscaler=key, cause=str(error))
        status = draft.status()
        if status != autoscaler.status:
            await patch_status(self._client, HORIZONTAL_POD_AUTOSCALERS, autoscaler, explicit(status))

    async def _reconcile(self, key: str, autoscaler: HorizontalPodAutoscaler, draft: StatusDraft) -> None:
        target = await self._target(autoscaler, draft)
        draft.set(ABLE, True, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
        spec, current, now = autoscaler.spec, target.replicas, self._clock.monotonic()
        draft.current_replicas = current
        history = self._histories.setdefault(key, ScaleHistory())
        if not history.recommendations:
            history.recommend(current, now, kept_seconds=0)
        if current == 0 and min_replicas(spec) != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            draft.set(ACTIVE, False, "ScalingDisabled", text)
            draft.desired_replicas = 0
            return
        if current > spec.max_replicas:
            desired, reason = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif current < min_replicas(spec):
            desired, reason = min_replicas(spec), "Current number of replicas below Spec.MinReplicas"
        else:
            wanted = await self._desired(key, autoscaler, target, draft)
            reason = f"{wanted.metric} above target" if wanted.replicas > current else "All metrics below target"
            limited = limited_replicas(spec, history, current, wanted.replicas, now)
            draft.set(ABLE, True, *limited.able)
            draft.set(LIMITED, limited.is_limited, *limited.limit)
            desired = limited.replicas
        if desired != current:
            await self._rescale(autoscaler, target, desired, reason, draft)
            history.scaled(current, desired, now, spec.behavior)
        draft.desired_replicas = desired

    async def _target(self, autoscaler: HorizontalPodAutoscaler, draft: StatusDraft) -> _Target:
        reference, namespace = autoscaler.spec.scale_target_ref, autoscaler.metadata.namespace
        group = reference.api_version.rpartition("/")[0]
        try:
            resource = await self._resource(group, reference.kind)
            kind = as_documents(replace(resource, subresource="scale"))
            return _Target(resource, await self._client.get(kind, reference.name, namespace=namespace))
        except (ApiError, ScaleError) as error:
            self._record(autoscaler, WARNING, "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            draft.set(ABLE, False, "FailedGetScale", text)
            raise ScaleError(str(error)) from error

    async def _resource(self, group: str, kind: str) -> Resource:
        """The resource of a kind, in whichever version is served."""
        if (group, kind) not in self._kinds:
            self._kinds = {(one.group, one.kind): one for one in reversed(await self._client.served())}
        if (group, kind) not in self._kinds:
            raise ScaleError(f'no matches for kind "{kind}" in group "{group}"')
        return self._kinds[group, kind]

    async def _rescale(
        self, autoscaler: HorizontalPodAutoscaler, target: _Target, desired: int, reason: str, draft: StatusDraft
    ) -> None:
        scale = {**target.scale, "spec": {**(target.scale.get("spec") or {}), "replicas": desired}}
        name, namespace = autoscaler.spec.scale_target_ref.name, autoscaler.metadata.namespace
        try:
            await self._client.replace(target.resource, name, scale, namespace=namespace, subresource="scale")
        except ApiError as error:
            text = f"New size: {desired}; reason: {reason}; error: {error}"
            self._record(autoscaler, WARNING, "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {error}"
            draft.set(ABLE, False, "FailedUpdateScale", text)
            raise ScaleError(str(error)) from error
        text = f"the HPA controller was able to update the target scale to {desired}"
        draft.set(ABLE, True, "SucceededRescale", text)
        self._record(autoscaler, NORMAL, "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        draft.scaled()

    async def _desired(
        self, key: str, autoscaler: HorizontalPodAutoscaler, target: _Target, draft: StatusDraft
    ) -> _Desired:
        """The most replicas that any metric asks for. A metric that fails only prevents scaling down."""
        try:
            workload = self._workload(key, autoscaler, target)
        except SelectorProblem as error:
            self._record(autoscaler, WARNING, error.event, str(error))
            draft.set(ACTIVE, False, error.reason, error.condition)
            self._record(autoscaler, WARNING, "FailedComputeMetricsReplicas", str(error))
            raise MetricError(str(error)) from error
        statuses: list[MetricStatus] = []
        problems: list[_MetricProblem] = []
        best: tuple[int, str] = (0, "")
        for metric in autoscaler.spec.metrics:
            try:
                replicas, name, status = await self._proposal(metric, autoscaler, workload)
            except _MetricProblem as problem:
                self._record(autoscaler, WARNING, problem.reason, problem.detail)
                problems.append(problem)
                statuses.append(MetricStatus())
                continue
            statuses.append(status)
            if best[0] == 0 or replicas > best[0]:
                best = (replicas, name)
        draft.current_metrics = tuple(statuses)
        all_failed = len(problems) >= len(autoscaler.spec.metrics)
        if all_failed or (problems and best[0] < workload.replicas):
            count, first = len(problems), problems[0]
            text = f"the HPA was unable to compute the replica count: {first.detail}"
            draft.set(ACTIVE, False, first.reason, text)
            text = f"invalid metrics ({count} invalid out of {len(autoscaler.spec.metrics)}), first error is: {first}"
            self._record(autoscaler, WARNING, "FailedComputeMetricsReplicas", text)
            raise MetricError(text)
        text = f"the HPA was able to successfully calculate a replica count from {best[1]}"
        draft.set(ACTIVE, True, "ValidMetricFound", text)
        return _Desired(*best, tuple(statuses))

    def _workload(self, key: str, autoscaler: HorizontalPodAutoscaler, target: _Target) -> _Workload:
        """The pods that the target's selector selects; SelectorProblem if another autoscaler scales some of them."""
        namespace, text = autoscaler.metadata.namespace, target.selector
        if not text:
            missing = "the HPA target's scale is missing a selector"
            raise SelectorProblem("selector is required", "SelectorRequired", "InvalidSelector", missing)
        try:
            selector = parse_selector(text)
        except SelectorError as error:
            problem = f"couldn't convert selector into a corresponding internal selector object: {error}"
            raise SelectorProblem(problem, "InvalidSelector") from error
        labels = _required_labels(selector)
        self._selectors[key] = selector
        self._selecting.put(key, labels)
        pods = [pod for pod in self._pods.labelled(namespace, labels) if selector.matches(pod.metadata.labels)]
        rivals = {
            other
            for pod in pods
            for other in self._selecting.candidates(pod)
            if self._selectors[other].matches(pod.metadata.labels)
        }
        if len(rivals) > 1:
            # As Go prints the keys.
            names = " ".join(f"{{{name} {place}}}" for place, _, name in (one.partition("/") for one in sorted(rivals)))
            raise SelectorProblem(
                f"pods by selector {text} are controlled by multiple HPAs: [{names}]", "AmbiguousSelector"
            )
        return _Workload(namespace, target.replicas, text, pods)

    async def _proposal(
        self, metric: MetricSpec, autoscaler: HorizontalPodAutoscaler, workload: _Workload
    ) -> tuple[int, str, MetricStatus]:
        """The replicas for a metric, the metric's name in messages, and its status."""
        tolerances = tolerances_of(autoscaler.spec.behavior)
        if (whole := metric.resource) is not None:
            try:
                proposal = await self._for_resource(whole.name, "", whole.target, workload, tolerances)
            except MetricError as error:
                text = f"failed to get {whole.name} resource metric value: {error}"
                raise _MetricProblem("FailedGetResourceMetric", str(error), text) from error
            status = ResourceMetricStatus(name=whole.name, current=_current(proposal))
            name = _metric_name(f"{whole.name} resource", proposal)
            return proposal.replicas, name, MetricStatus(type=metric.type, resource=status)
        if (part := metric.container_resource) is not None:
            try:
                proposal = await self._for_resource(part.name, part.container, part.target, workload, tolerances)
            except MetricError as error:
                text = f"failed to get {part.container} container metric value: {error}"
                raise _MetricProblem("FailedGetContainerResourceMetric", str(error), text) from error
            current = ContainerResourceMetricStatus(
                name=part.name, container=part.container, current=_current(proposal)
            )
            name = _metric_name(f"{part.name} container resource", proposal)
            return proposal.replicas, name, MetricStatus(type=metric.type, container_resource=current)
        raise _custom_metric_problem(metric)

    async def _for_resource(
        self, resource: str, container: str, target: MetricTarget, workload: _Workload, tolerances: Tolerances
    ) -> ReplicaProposal:
        what = "usage" if target.average_value is not None else "utilization"
        if target.average_value is None and target.average_utilization is None:
            raise MetricError(_NO_TARGET)
        try:
            metrics = await resource_metrics(self._client, workload.namespace, workload.selector, resource, container)
        except MetricError as error:
            text = f"failed to get {resource} {what}: unable to get metrics for resource {resource}: {error}"
            raise MetricError(text) from error
        observed = ObservedPods(
            resource=resource, container=container, pods=workload.pods, metrics=metrics, now=self._clock.now()
        )
        try:
            if target.average_value is not None:
                average = parse_quantity(target.average_value).milli_value()
                return replicas_for_average(workload.replicas, average, observed, tolerances)
            return replicas_for_utilization(workload.replicas, target.average_utilization or 1, observed, tolerances)
        except MetricError as error:
            raise MetricError(f"failed to get {resource} {what}: {error}") from error

    def _record(self, autoscaler: HorizontalPodAutoscaler, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(reference_to(autoscaler), event_type, reason, message)


class SelectorProblem(Exception):
    """The target's selector cannot be used: an event's reason, and the condition's reason and message."""

    def __init__(self, message: str, event: str, reason: str = "", condition: str = "") -> None:
        super().__init__(message)
        self.event, self.reason, self.condition = event, reason or event, condition or message


class _MetricProblem(Exception):
    """A metric gives no number of replicas: the reason and detail of its condition."""

    def __init__(self, reason: str, detail: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.detail = reason, detail


def tolerances_of(behavior: HorizontalPodAutoscalerBehavior | None) -> Tolerances:
    """The tolerances of the behavior, which a cluster keeps only with the feature gate HPAConfigurableTolerance."""
    if behavior is None:
        return Tolerances()

    def tolerance(rules: HPAScalingRules | None) -> float:
        text = rules.tolerance if rules is not None else None
        return TOLERANCE if text is None else parse_quantity(text).milli_value() / 1000

    return Tolerances(tolerance(behavior.scale_down), tolerance(behavior.scale_up))


def _required_labels(selector: Selector) -> dict[str, str]:
    """The labels with the values that a selector requires, by which pods are indexed."""
    return {
        one.key: one.values[0]
        for one in selector.requirements
        if one.operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS)
        or (one.operator is Operator.IN and len(one.values) == 1)
    }


def _current(proposal: ReplicaProposal) -> MetricValueStatus:
    average = str(Quantity(proposal.average, -3, Format.DECIMAL_SI))
    return MetricValueStatus(average_utilization=proposal.utilization, average_value=average)


def _metric_name(what: str, proposal: ReplicaProposal) -> str:
    return what if proposal.utilization is None else f"{what} utilization (percentage of request)"


def _custom_metric_problem(metric: MetricSpec) -> _MetricProblem:
    """The problem of a metric that only a custom or external metrics API knows."""
    if metric.pods is not None:
        name = metric.pods.metric.name
        detail = f"unable to get metric {name}: unable to fetch metrics from {_CUSTOM}"
        return _MetricProblem("FailedGetPodsMetric", detail, f"failed to get pods metric value: {detail}")
    if metric.object is not None:
        name, what = metric.object.metric.name, metric.object.described_object
        detail = f"unable to get metric {name}: {what.kind} on {what.name}: unable to fetch metrics from {_CUSTOM}"
        return _MetricProblem("FailedGetObjectMetric", detail, f"failed to get object metric value: {detail}")
    name = metric.external.metric.name if metric.external is not None else ""
    detail = f"unable to get external metric {name}: unable to fetch metrics from external {_CUSTOM}"
    return _MetricProblem("FailedGetExternalMetric", detail, f"failed to get {name} external metric value: {detail}")
