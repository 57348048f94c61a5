"""The conditions of a Job, and when they call it finished.

Pure. A job ends in two steps: first the interim condition says how it will end, then, once every pod is counted and
gone, the terminal one says that it has. Upstream: pkg/controller/job/{job_controller,success_policy}.go.
"""

from collections.abc import Iterable
from datetime import datetime

from pykubelet.api.generated.batch import Job, JobCondition
from pykubelet.api.times import format_time

COMPLETE, FAILED = "Complete", "Failed"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
SUSPENDED = "Suspended"


def new_condition(type: str, status: str, reason: str, message: str, now: datetime) -> JobCondition:
    """A condition that holds from now on."""
    at = format_time(now)
    return JobCondition(
        type=type, status=status, reason=reason, message=message, last_probe_time=at, last_transition_time=at
    )


def find_condition(conditions: Iterable[JobCondition], type: str) -> JobCondition | None:
    """The first condition of this type."""
    return next((condition for condition in conditions if condition.type == type), None)


def true_condition(conditions: Iterable[JobCondition], type: str) -> JobCondition | None:
    """The first condition of this type, if it is True."""
    found = find_condition(conditions, type)
    return found if found is not None and found.status == "True" else None


def with_condition(conditions: tuple[JobCondition, ...], wanted: JobCondition) -> tuple[JobCondition, ...]:
    """The conditions with this one among them; the very same tuple if it says nothing new.

    One that was never there and is not True is not added: from nothing to False is no news.
    """
    old = find_condition(conditions, wanted.type)
    if old is None:
        return conditions if wanted.status == "False" else (*conditions, wanted)
    if (old.status, old.reason, old.message) == (wanted.status, wanted.reason, wanted.message):
        return conditions
    return tuple(wanted if condition is old else condition for condition in conditions)


def is_finished(job: Job) -> bool:
    """Whether the job has come to its end, well or not."""
    return any(c.type in (COMPLETE, FAILED) and c.status == "True" for c in job.status.conditions)


def terminal_condition(ending: JobCondition, now: datetime) -> JobCondition:
    """What an interim condition becomes in the end."""
    final = COMPLETE if ending.type == SUCCESS_CRITERIA_MET else FAILED
    return new_condition(final, "True", ending.reason, ending.message, now)
