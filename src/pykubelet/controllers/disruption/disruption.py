"""The disruption controllers: PodDisruptionBudget status, and stale DisruptionTarget conditions.

The eviction API decrements the budgets' status. What cannot be determined permits no disruption. A pod that announces
its disruption and is not deleted within two minutes gets the condition set to False; announcements of the kubelet have
no time limit.

Upstream: pkg/controller/disruption/disruption.go
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError, Conflict
from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.generated.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from pykubelet.api.labels import SelectorError, selector_from_object
from pykubelet.api.pods import condition_of, is_terminal
from pykubelet.api.scheme import POD_DISRUPTION_BUDGETS, PODS
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time, parse_time
from pykubelet.client.indexer import LabelIndex, ObjectIndex, PodIndex, SelectorIndex, controller_of, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, reference_to
from pykubelet.controllers.disruption.budget import (
    NoScaleError,
    ScaleFinder,
    disrupted_pods,
    expectation,
    failed_status,
    healthy_count,
    needs_scale,
    new_status,
    selector_text,
    status_document,
)
from pykubelet.controllers.framework.ownership import patch_status
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

CONDITION = "DisruptionTarget"
TIMEOUT = timedelta(minutes=2)
_BY_KUBELET = "TerminationByKubelet"


class DisruptionController(KeyedController):
    """Syncs PodDisruptionBudgets by key. `pods` finds all pods by label."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        clock: Clock,
        budgets: ObjectIndex[PodDisruptionBudget],
        pods: LabelIndex[Pod],
        scales: ScaleFinder,
    ) -> None:
        self._client, self._recorder, self._clock = client, recorder, clock
        self._budgets, self._pods, self._scales = budgets, pods, scales
        self._selectors = SelectorIndex()
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(POD_DISRUPTION_BUDGETS, changed=self.budget_put, deleted=self.budget_deleted)
        informers.add_event_handler(PODS, added=self.enqueue_of, updated=self.pod_updated, deleted=self.enqueue_of)

    def budget_put(self, budget: PodDisruptionBudget) -> None:
        selector = budget.spec.selector
        if selector is None:
            self._selectors.remove(key_of(budget))
        else:
            self._selectors.put(key_of(budget), selector.match_labels)
        self.queue.add(key_of(budget))

    def budget_deleted(self, budget: PodDisruptionBudget) -> None:
        self._selectors.remove(key_of(budget))

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Enqueues the budgets of a changed pod, including those it has left."""
        if old.metadata.labels != new.metadata.labels:
            self.enqueue_of(old)
        self.enqueue_of(new)

    async def sync(self, key: str) -> None:
        """Updates the status of one budget; on failure the budget permits no disruption."""
        budget = self._budgets.get(key)
        if budget is None:
            return
        try:
            await self._update(budget)
        except Conflict:
            raise
        except (ApiError, NoScaleError, SelectorError, ValueError) as error:
            await self._store(budget, failed_status(budget, str(error), self._clock.now()))
            if isinstance(error, ApiError) and error.retry:
                raise

    async def _update(self, budget: PodDisruptionBudget) -> None:
        pods = self._pods_of(budget)
        scale = await self._scale(budget, pods) if needs_scale(budget.spec) else 0
        try:
            expected, desired = expectation(budget.spec, len(pods), scale)
        except ValueError as error:
            self._count_failed(budget, error)
            raise
        now = self._clock.now()
        disrupted = disrupted_pods(budget, pods, now)
        for pod in disrupted.overdue:
            text = f"Pod was expected by PDB {key_of(budget)} to be deleted but it wasn't"
            self._recorder.event(reference_to(pod), WARNING, "NotDeleted", text)
        status = new_status(
            budget,
            healthy=healthy_count(pods, disrupted, now),
            desired=desired,
            expected=expected,
            disrupted=disrupted.waiting,
            now=now,
        )
        await self._store(budget, status)
        if disrupted.recheck_at is not None:
            # One second later, when the deadline has certainly passed.
            self.queue.add_after(key_of(budget), (disrupted.recheck_at - now).total_seconds() + 1)

    def _pods_of(self, budget: PodDisruptionBudget) -> list[Pod]:
        try:
            selector = selector_from_object(budget.spec.selector)
        except SelectorError as error:
            self._recorder.event(reference_to(budget), WARNING, "NoPods", f"Failed to get pods: {error}")
            raise
        labels = budget.spec.selector.match_labels if budget.spec.selector is not None else {}
        found = self._pods.labelled(budget.metadata.namespace, labels)
        pods = [pod for pod in found if selector.matches(pod.metadata.labels)]
        if not pods:
            self._recorder.event(reference_to(budget), NORMAL, "NoPods", "No matching pods found")
        return pods

    async def _scale(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> int:
        """The number of pods that the owners of these pods want, each owner counted once."""
        replicas_by_uid: dict[str, int] = {}
        seen_owners: set[str] = set()
        has_unmanaged = False
        try:
            for pod in pods:
                owner = controller_of(pod)
                if owner is None:
                    has_unmanaged = True
                elif owner.uid not in seen_owners:
                    seen_owners.add(owner.uid)
                    uid, replicas = await self._replicas_of(pod, owner)
                    replicas_by_uid[uid] = replicas
        except (ApiError, NoScaleError) as error:
            self._count_failed(budget, error)
            raise
        if has_unmanaged:
            text = (
                f"Pods selected by this PodDisruptionBudget (selector: {selector_text(budget.spec.selector)}) were "
                "found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may "
                'result in undefined behavior. To account for these pods please set ".spec.minAvailable" field of the '
                "PDB to an integer value."
            )
            self._recorder.event(reference_to(budget), WARNING, "UnmanagedPods", text)
        return sum(replicas_by_uid.values())

    async def _replicas_of(self, pod: Pod, owner: OwnerReference) -> tuple[str, int]:
        found = await self._scales.of(pod.metadata.namespace, owner)
        if found is None:
            raise NoScaleError(f'found no controllers for pod "{pod.metadata.name}"')
        return found

    async def _store(self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> None:
        if status != budget.status:
            document = status_document(budget.status, status)
            await patch_status(self._client, POD_DISRUPTION_BUDGETS, budget, document)

    def _count_failed(self, budget: PodDisruptionBudget, error: Exception) -> None:
        text = f"Failed to calculate the number of expected pods: {error}"
        self._recorder.event(reference_to(budget), WARNING, "CalculateExpectedPodCountFailed", text)

    def enqueue_of(self, pod: Pod) -> None:
        """Enqueues the budgets that select the pod; more than one is an error and recorded as an event."""
        found = sorted(self._selecting(pod))
        if len(found) > 1:
            text = (
                f'Pod "{pod.metadata.namespace}"/"{pod.metadata.name}" matches multiple PodDisruptionBudgets.  '
                f'Chose "{found[0].partition("/")[2]}" arbitrarily.'
            )
            self._recorder.event(reference_to(pod), WARNING, "MultiplePodDisruptionBudgets", text)
        for key in found:
            self.queue.add(key)

    def _selecting(self, pod: Pod) -> Iterable[str]:
        for key in self._selectors.candidates(pod):
            budget = self._budgets.get(key)
            try:
                if budget is not None and selector_from_object(budget.spec.selector).matches(pod.metadata.labels):
                    yield key
            except SelectorError:
                continue


class StaleDisruptionController(KeyedController):
    """Syncs pods with a DisruptionTarget condition by key."""

    def __init__(self, *, client: Client, pods: PodIndex, clock: Clock) -> None:
        self._client, self._pods, self._clock = client, pods, clock
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PODS, changed=self.pod_put)

    def pod_put(self, pod: Pod) -> None:
        """Enqueues a pod for when its condition becomes stale."""
        seconds = seconds_until_stale(pod, self._clock.now())
        if seconds is not None:
            self.queue.add_after(key_of(pod), seconds)

    async def sync(self, key: str) -> None:
        pod = self._pods.get(key)
        now = self._clock.now()
        seconds = seconds_until_stale(pod, now) if pod is not None else None
        if pod is None or seconds is None:
            return
        if seconds > 0:
            self.queue.add_after(key, seconds)
            return
        meta = pod.metadata
        await self._client.patch(
            PODS, meta.name, disruption_target_removal_patch(pod, now), namespace=meta.namespace, subresource="status"
        )


def seconds_until_stale(pod: Pod, now: datetime) -> float | None:
    """Seconds until the DisruptionTarget condition is stale; None if there is none, or the pod is terminating."""
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod.status.phase):
        return None
    condition = condition_of(pod, CONDITION)
    if condition is None or condition.status != "True" or condition.reason == _BY_KUBELET:
        return None
    if not condition.last_transition_time:
        return 0.0
    return max(0.0, (parse_time(condition.last_transition_time) + TIMEOUT - now).total_seconds())


def disruption_target_removal_patch(pod: Pod, now: datetime) -> Document:
    condition = {
        "type": CONDITION,
        "status": "False",
        "lastTransitionTime": format_time(now),
        "observedGeneration": pod.metadata.generation or None,
        "reason": None,
        "message": None,
    }
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
