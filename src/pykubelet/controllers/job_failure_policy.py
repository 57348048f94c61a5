"""What a Job's pod failure policy makes of a failed pod.

Pure. Upstream: pkg/controller/job/pod_failure_policy.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pykubelet.api.generated.batch import (
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
)
from pykubelet.api.generated.core import ContainerStatus, Pod


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """Whether the failure counts, the message with which it fails the whole job, or whether it fails its index."""

    counts: bool = True
    fails_job: str | None = None
    fails_index: bool = False


def judge_failure(policy: PodFailurePolicy | None, pod: Pod) -> FailureVerdict:
    """The verdict of the first rule that matches; without one the failure just counts."""
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        what = _matched(rule, pod)
        if what is None:
            continue
        if rule.action == "Ignore":
            return FailureVerdict(counts=False)
        if rule.action in ("Count", "FailIndex"):
            return FailureVerdict(fails_index=rule.action == "FailIndex")
        if rule.action == "FailJob":
            return FailureVerdict(fails_job=f"{what} matching {rule.action} rule at index {index}")
    return FailureVerdict()


def _matched(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """What about the pod matches the rule, in words."""
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
