"""Validation of a Job's status, which controllers of other projects may write too.

A rule applies only if its part of the status changes, so that an invalid status can be repaired elsewhere and a status
can follow a changed spec.

Upstream: pkg/apis/batch/validation/validation.go, pkg/registry/batch/job/strategy.go
"""

from dataclasses import dataclass
from functools import cached_property

from pykubelet.api.field_errors import OMITTED, FieldError, TypedString, duplicate, invalid, required
from pykubelet.api.serializer import Document
from pykubelet.api.times import parse_time
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.job.validation import INDEXED, IndexesError, indexes_count, overlap
from pykubelet.kinds.metadata import IMMUTABLE, metadata_update_errors
from pykubelet.kinds.replicas import counts_errors


@dataclass(frozen=True)
class _StatusChange:
    """A Job's spec, and its status after and before the update."""

    spec: Document
    status: Document
    before: Document

    def changed(self, *names: str) -> bool:
        """Whether one of these status fields changed."""
        return any(self.status.get(name) != self.before.get(name) for name in names)

    def turned(self, *conditions: str) -> bool:
        """Whether one of these conditions became true or false."""
        return any((kind in self.true) != (kind in self.was_true) for kind in conditions)

    @cached_property
    def true(self) -> frozenset[str]:
        """The types of the conditions that are true."""
        return _with_status(self.status, "True")

    @cached_property
    def was_true(self) -> frozenset[str]:
        """The types of the conditions that were true before."""
        return _with_status(self.before, "True")

    @property
    def is_finished(self) -> bool:
        """Whether the Job is complete or failed."""
        return not self.true.isdisjoint({"Complete", "Failed"})

    @property
    def finish_changed(self) -> bool:
        """Whether this update makes the Job finished, or unfinished again."""
        return self.is_finished == self.was_true.isdisjoint({"Complete", "Failed"})


def validate_job_status(new: Document, old: Document) -> list[FieldError]:
    """Validates a Job whose status changed."""
    step = _StatusChange(new["spec"], new.get("status", {}), old.get("status", {}))
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *counts_errors(step.status, "status", ("active", "succeeded", "failed", "ready", "terminating")),
        *_uncounted_errors(step.status),
        *_condition_errors(step),
        *_completion_time_errors(step),
        *_finish_reason_errors(step),
        *_finished_errors(step),
        *_indexes_errors(step),
        *_running_errors(step),
        *_success_criteria_errors(step),
        *_transition_errors(step),
    ]


def _uncounted_errors(status: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    uncounted = status.get("uncountedTerminatedPods", {})
    for side in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(side, ())):
            path = f"status.uncountedTerminatedPods.{side}[{index}]"
            if not uid:
                errors.append(invalid(path, TypedString(uid), "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, TypedString(uid)))
            seen.add(uid)
    return errors


def _condition_errors(step: _StatusChange) -> list[FieldError]:
    errors: list[FieldError] = []
    if step.turned("Complete", "Failed") and {"Complete", "Failed"} <= step.true:
        errors.append(_condition_error("cannot set Complete=True and Failed=true conditions"))
    if step.turned("Complete", "FailureTarget") and {"Complete", "FailureTarget"} <= step.true:
        errors.append(_condition_error("cannot set Complete=True and FailureTarget=true conditions"))
    return errors


def _condition_error(detail: str) -> FieldError:
    return invalid("status.conditions", OMITTED, detail)


def _completion_time_errors(step: _StatusChange) -> list[FieldError]:
    path, is_complete = "status.completionTime", "Complete" in step.true
    start, end = step.status.get("startTime"), step.status.get("completionTime")
    errors: list[FieldError] = []
    if step.turned("Complete") or step.changed("completionTime"):
        if end is not None and not is_complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid(path, TypedString(end), detail))
        if end is None and is_complete:
            errors.append(required(path, "completionTime is required for Complete jobs"))
    is_new = step.changed("startTime", "completionTime")
    if is_new and start is not None and end is not None and parse_time(end) < parse_time(start):
        errors.append(invalid(path, TypedString(end), "must be equal to or after `startTime`"))
    return errors


def _finish_reason_errors(step: _StatusChange) -> list[FieldError]:
    errors: list[FieldError] = []
    lacks_target = "Failed" in step.true and "FailureTarget" not in step.true
    if lacks_target and (step.turned("Failed") or step.changed("failedIndexes")):
        errors.append(_condition_error("cannot set Failed=True condition without the FailureTarget=true condition"))
    lacks_criteria = "Complete" in step.true and "SuccessCriteriaMet" not in step.true
    if lacks_criteria and step.turned("Complete", "SuccessCriteriaMet"):
        detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(_condition_error(detail))
    return errors


def _finished_errors(step: _StatusChange) -> list[FieldError]:
    if not step.is_finished:
        return []
    status, errors = step.status, list[FieldError]()
    never_to_run = step.spec.get("suspend") is True and step.spec.get("completions") == 0
    if (step.finish_changed or step.changed("active")) and (active := status.get("active", 0)) > 0:
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    if (step.finish_changed or step.changed("startTime")) and not never_to_run and "startTime" not in status:
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods", {})
    if (step.finish_changed or step.changed("uncountedTerminatedPods")) and any(uncounted.values()):
        value = internal_form(uncounted, "batch.UncountedTerminatedPods")
        errors.append(invalid("status.uncountedTerminatedPods", value, "must be empty for finished job"))
    return errors


def _indexes_errors(step: _StatusChange) -> list[FieldError]:
    completions, per_index = step.spec.get("completions"), step.spec.get("backoffLimitPerIndex")
    completed, failed = step.status.get("completedIndexes", ""), step.status.get("failedIndexes")
    completed_changed, failed_changed = step.changed("completedIndexes"), step.changed("failedIndexes")
    errors: list[FieldError] = []
    if completed_changed and completions is not None:
        errors += _indexes_text_errors(completed, completed, completions, "completedIndexes")
    if failed_changed and completions is not None and per_index is not None and failed is not None:
        errors += _indexes_text_errors(failed, TypedString(failed), completions, "failedIndexes")
    if completed_changed and completed and step.spec.get("completionMode") != INDEXED:
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", completed, detail))
    if failed_changed and failed is not None and per_index is None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, detail))
    if (completed_changed or failed_changed) and completions is not None and failed is not None:
        index = overlap(completed, failed, completions)
        if index is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {index}"
            errors.append(invalid("status.failedIndexes", failed, detail))
    return errors


def _indexes_text_errors(text: str, value: str, completions: int, name: str) -> list[FieldError]:
    try:
        indexes_count(text, completions)
    except IndexesError as error:
        return [invalid(f"status.{name}", value, f"error parsing {name}: {error}")]
    return []


def _running_errors(step: _StatusChange) -> list[FieldError]:
    terminating, ready = step.status.get("terminating", 0), step.status.get("ready")
    errors: list[FieldError] = []
    if (step.finish_changed or step.changed("terminating")) and terminating > 0 and step.is_finished:
        errors.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    if step.changed("ready", "active") and ready is not None and ready > step.status.get("active", 0):
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors


def _success_criteria_errors(step: _StatusChange) -> list[FieldError]:
    is_met = "SuccessCriteriaMet" in step.true
    errors: list[FieldError] = []
    if is_met and "Failed" in step.true:
        errors.append(_condition_error("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if is_met and "FailureTarget" in step.true:
        errors.append(_condition_error("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if "successPolicy" in step.spec and not is_met and "Complete" in step.true:
        detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(_condition_error(detail))
    return errors


def _transition_errors(step: _StatusChange) -> list[FieldError]:
    """Validates that the new status keeps what is final in the old one."""
    spec, status, before = step.spec, step.status, step.before
    errors = [
        _condition_error(f"cannot disable the terminal {kind}=True condition")
        for kind in ("Failed", "Complete", "FailureTarget")
        if kind in step.was_true and kind not in step.true
    ]
    # An elastic indexed Job can be scaled down, and its successes with it.
    is_elastic = spec.get("completionMode") == INDEXED and spec.get("completions") == spec.get("parallelism")
    errors += [
        invalid(f"status.{name}", count, f"cannot decrease the {name} counter")
        for name in (("failed",) if is_elastic else ("failed", "succeeded"))
        if (count := status.get(name, 0)) < before.get(name, 0)
    ]
    if "completionTime" in status and "completionTime" in before and step.changed("completionTime"):
        errors.append(invalid("status.completionTime", TypedString(status["completionTime"]), IMMUTABLE))
    is_resuming = "Suspended" in step.was_true and "Suspended" in _with_status(status, "False")
    if "startTime" in before and step.changed("startTime") and not spec.get("suspend") and not is_resuming:
        errors.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    if step.turned("SuccessCriteriaMet"):
        if "SuccessCriteriaMet" in step.was_true:
            errors.append(_condition_error("cannot disable the SuccessCriteriaMet=True condition"))
        elif "Complete" in step.was_true:
            detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
            errors.append(_condition_error(detail))
    return errors


def _with_status(status: Document, value: str) -> frozenset[str]:
    return frozenset(each.get("type", "") for each in status.get("conditions", ()) if each.get("status") == value)
