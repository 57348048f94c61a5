"""What came of each step of bringing a pod where it should be.

Upstream: pkg/kubelet/container/sync_result.go
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.runtime.protocol import RuntimeFailure


class Action(StrEnum):
    """What was tried."""

    START_CONTAINER = "StartContainer"
    KILL_CONTAINER = "KillContainer"
    CREATE_SANDBOX = "CreatePodSandbox"
    KILL_SANDBOX = "KillPodSandbox"


# What a failed step is called, if the failure does not say better.
_REASONS = {
    Action.START_CONTAINER: "RunContainerError",
    Action.KILL_CONTAINER: "KillContainerError",
    Action.CREATE_SANDBOX: "CreatePodSandboxError",
    Action.KILL_SANDBOX: "KillPodSandboxError",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One step; without a `reason` it worked. `target` is the name of a container, or says which pod.

    Of a container that did not start, reason and message are what users see it waiting for. `retry_at` is when another
    try is worth while, if that is known.
    """

    action: Action
    target: str
    reason: str = ""
    message: str = ""
    retry_at: datetime | None = None


def failed(action: Action, target: str, failure: RuntimeFailure) -> StepResult:
    """The step that ended in this failure."""
    reason = failure.reason or _REASONS[action]
    return StepResult(action=action, target=target, reason=reason, message=failure.message, retry_at=failure.retry_at)


def error_text(results: Iterable[StepResult]) -> str:
    """All that went wrong in one line; empty if nothing did."""
    texts = dict.fromkeys(
        f"failed to {go_quote(step.action)} for {go_quote(step.target)} with {step.reason}: {go_quote(step.message)}"
        for step in results
        if step.reason
    )
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


def retry_at(results: Iterable[StepResult]) -> datetime | None:
    """When the first of the failed steps is worth another try; None if that is not known of all of them."""
    times = [step.retry_at for step in results if step.reason]
    known = [at for at in times if at is not None]
    return min(known) if known and len(known) == len(times) else None
