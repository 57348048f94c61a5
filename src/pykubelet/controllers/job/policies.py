"""The pod failure policy, success policy and failure backoff of a Job.

Each failure since the last success doubles the wait before failed pods are replaced.

Upstream: pkg/controller/job/pod_failure_policy.go, pkg/controller/job/success_policy.go,
pkg/controller/job/backoff_utils.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pykubelet.aio.backoff import Backoff
from pykubelet.api.generated.batch import (
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from pykubelet.api.generated.core import ContainerStatus, Pod
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.api.times import ZERO_TIME, parse_time, seconds_after
from pykubelet.controllers.job.indexes import IndexSet, parse_indexes

POD_FAILURE_BACKOFF = Backoff(first_seconds=10, limit_seconds=600)


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """The number of failures since the last success, and the time of the last one."""

    failures: int = 0
    last_failure: datetime | None = None


NO_FAILURES = FailureRecord()


@dataclass(frozen=True, slots=True)
class PodFailurePolicyMatch:
    """Whether a failure counts, the message with which it fails the job, and whether it fails its index."""

    counts: bool = True
    fails_job: str | None = None
    fails_index: bool = False


def next_record(record: FailureRecord, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> FailureRecord:
    """The record after these pods have finished; only failures after the last success count."""
    times = sorted(finished_at(pod) for pod in failed)
    if succeeded:
        last_success = max(finished_at(pod) for pod in succeeded)
        times = [at for at in times if at > last_success]
        record = NO_FAILURES
    return FailureRecord(record.failures + len(times), times[-1]) if times else record


def remaining_seconds(record: FailureRecord, now: datetime) -> float:
    """Seconds until failed pods may be replaced."""
    if not record.failures or record.last_failure is None:
        return 0.0
    delay = POD_FAILURE_BACKOFF.delay_seconds(record.failures)
    since = (now - record.last_failure).total_seconds()
    # A failure further in the future than the delay is from before the clock was set back.
    return max(0.0, delay - since) if since >= -delay else 0.0


def finished_at(pod: Pod) -> datetime:
    """When the pod finished: by its containers, else since it is unready, else by its deletion or creation."""
    if from_containers := _containers_finished_at(pod):
        return from_containers
    ready = next((condition for condition in pod.status.conditions if condition.type == "Ready"), None)
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return parse_time(ready.last_transition_time)
    meta = pod.metadata
    if meta.deletion_timestamp is not None:
        # The deletion timestamp is the end of the grace period.
        return seconds_after(parse_time(meta.deletion_timestamp), -(meta.deletion_grace_period_seconds or 0))
    return parse_time(meta.creation_timestamp) if meta.creation_timestamp else ZERO_TIME


def _containers_finished_at(pod: Pod) -> datetime | None:
    """When the last container finished, including sidecars, which outlive the others."""
    sidecars = {container.name for container in pod.spec.init_containers if is_restartable_init_container(container)}
    regular = _latest(None, pod.status.container_statuses)
    return _latest(regular, (status for status in pod.status.init_container_statuses if status.name in sidecars))


def _latest(latest: datetime | None, statuses: Iterable[ContainerStatus]) -> datetime | None:
    for status in statuses:
        terminated = status.state.terminated
        if terminated is None or not terminated.finished_at:
            return None
        at = parse_time(terminated.finished_at)
        latest = at if latest is None else max(latest, at)
    return latest


def match_pod_failure_policy(policy: PodFailurePolicy | None, pod: Pod) -> PodFailurePolicyMatch:
    """The action of the first matching rule; without one the failure counts."""
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        what = _matched(rule, pod)
        if what is None:
            continue
        if rule.action == "Ignore":
            return PodFailurePolicyMatch(counts=False)
        if rule.action in ("Count", "FailIndex"):
            return PodFailurePolicyMatch(fails_index=rule.action == "FailIndex")
        if rule.action == "FailJob":
            return PodFailurePolicyMatch(fails_job=f"{what} matching {rule.action} rule at index {index}")
    return PodFailurePolicyMatch()


def _matched(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """Upstream's text of what matches the rule; None if nothing does."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        found = _matching_container(statuses, rule.on_exit_codes)
        if found is None:
            return None
        container, code = found
        return f"Container {container} for pod {name} failed with exit code {code}"
    wanted = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in wanted:
            return f"Pod {name} has condition {condition.type}"
    return None


def _matching_container(
    statuses: Iterable[ContainerStatus], wanted: PodFailurePolicyOnExitCodesRequirement
) -> tuple[str, int] | None:
    for status in statuses:
        terminated = status.state.terminated
        if terminated is None or terminated.exit_code == 0:
            continue
        if wanted.container_name not in (None, status.name):
            continue
        listed = terminated.exit_code in wanted.values
        if (wanted.operator == "In" and listed) or (wanted.operator == "NotIn" and not listed):
            return status.name, terminated.exit_code
    return None


def match_success_policy(policy: SuccessPolicy | None, succeeded: IndexSet, completions: int) -> int | None:
    """The number of the first success rule that these indexes satisfy."""
    if policy is None or not succeeded.ranges:
        return None
    rules = enumerate(policy.rules)
    return next((number for number, rule in rules if _is_met(rule, succeeded, completions)), None)


def _is_met(rule: SuccessPolicyRule, succeeded: IndexSet, completions: int) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and succeeded.total >= rule.succeeded_count
    required = parse_indexes(rule.succeeded_indexes, completions)
    if not required.ranges:
        return False
    there = required.common(succeeded)
    return there == required.total or (rule.succeeded_count is not None and there >= rule.succeeded_count)
