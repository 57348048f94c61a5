"""CronJob: creates Jobs on a schedule.

Upstream: pkg/registry/batch/cronjob/strategy.go, pkg/apis/batch/v1/defaults.go, pkg/apis/batch/validation/validation.go
"""

from typing import Any

from pykubelet.api.cron import schedule_problem
from pykubelet.api.field_errors import FieldError, TypedString, invalid, not_supported, required
from pykubelet.api.names import DNS1035_LABEL_MAX_LENGTH, byte_length, max_length_error
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age, is_time_zone, is_time_zone_syntax
from pykubelet.kinds.columns import NONE, UNSET, at, created, format_selector, name_of
from pykubelet.kinds.go_values import label_selector_value
from pykubelet.kinds.job.strategy import default_failure_policy, job_spec_warnings
from pykubelet.kinds.job.validation import job_spec_errors
from pykubelet.kinds.kind import Kind, Strategy, Warnings, generation_changed, keep_spec, keep_status, without_status
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.pod.warnings import name_warnings
from pykubelet.kinds.pod_template import container_cells, read_template
from pykubelet.kinds.replicas import counts_errors
from pykubelet.kinds.rules import OneOf

_CONCURRENCY_POLICIES = OneOf(("Allow", "Forbid", "Replace"))
# The controller appends a dash and the time in minutes to name a job.
_SUFFIX_LENGTH = 11
_DEFAULTS = {
    "concurrencyPolicy": "Allow",
    "suspend": False,
    "successfulJobsHistoryLimit": 3,
    "failedJobsHistoryLimit": 1,
}
_ZONE_IN_SCHEDULE = (
    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


def _default(document: Document) -> Document:
    normal = normal_form(document, "batch.v1.CronJob")
    spec = normal["spec"]
    job = spec["jobTemplate"]
    job_spec = {**default_failure_policy(job["spec"]), "template": read_template(job["spec"]["template"])}
    return {**normal, "spec": {**_DEFAULTS, **spec, "jobTemplate": {**job, "spec": job_spec}}}


def _validate_create(document: Document) -> list[FieldError]:
    name = document["metadata"].get("name", "")
    errors = metadata_errors(document["metadata"]) + _spec_errors(document["spec"], None, "spec")
    longest = DNS1035_LABEL_MAX_LENGTH - _SUFFIX_LENGTH
    if byte_length(name) > longest:
        errors.append(invalid("metadata.name", name, max_length_error(longest)))
    return errors


def _spec_errors(spec: Document, before: Document | None, path: str) -> list[FieldError]:
    zone = spec.get("timeZone")
    had_zone = before is not None and "TZ" in before["schedule"]
    errors = _schedule_errors(spec["schedule"], zone, f"{path}.schedule", had_zone=had_zone)
    errors += counts_errors(spec, path, ("startingDeadlineSeconds",))
    if zone is not None and (before is None or before.get("timeZone") != zone):
        errors += _zone_errors(zone, f"{path}.timeZone")
    errors += _CONCURRENCY_POLICIES.errors(spec["concurrencyPolicy"], f"{path}.concurrencyPolicy")
    errors += _job_template_errors(spec["jobTemplate"]["spec"], f"{path}.jobTemplate.spec")
    return errors + counts_errors(spec, path, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))


def _schedule_errors(schedule: str, zone: str | None, path: str, *, had_zone: bool) -> list[FieldError]:
    """Validates the schedule; an existing one with a time zone in it stays valid."""
    if not schedule:
        return [required(path)]
    problem = schedule_problem(schedule)
    errors = [] if problem is None else [invalid(path, schedule, problem)]
    if "TZ" not in schedule:
        return errors
    if not had_zone:
        errors.append(invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
    elif zone is not None:
        errors.append(invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
    return errors


def _zone_errors(zone: str, path: str) -> list[FieldError]:
    shown = TypedString(zone)
    if not zone:
        return [invalid(path, shown, "timeZone must be nil or non-empty string")]
    if not is_time_zone_syntax(zone):
        return [invalid(path, shown, f"unknown time zone {zone}")]
    errors: list[FieldError] = []
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, shown, detail))
    return errors if is_time_zone(zone) else [*errors, invalid(path, shown, f"unknown time zone {zone}")]


def _job_template_errors(spec: Document, path: str) -> list[FieldError]:
    errors = job_spec_errors(spec, path)
    if "selector" in spec:
        shown = label_selector_value(spec["selector"])
        errors.append(invalid(f"{path}.selector", shown, "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"]) + _spec_errors(new["spec"], old["spec"], "spec")


def cron_job_warnings(document: Document) -> list[str]:
    """The warnings for a new CronJob: about its name, and about its Job template."""
    return name_warnings(document) + _cron_job_spec_warnings(document)


def _cron_job_spec_warnings(document: Document) -> list[str]:
    return job_spec_warnings(document["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec")


def cron_job_change_warnings(new: Document, old: Document) -> list[str]:
    """The warnings for a changed CronJob. A time zone in the schedule is invalid in a new CronJob and warned about in an old one."""
    warnings = _cron_job_spec_warnings(new) if generation_changed(new, old) else []
    return [*warnings, _ZONE_IN_SCHEDULE] if "TZ" in new["spec"].get("schedule", "") else warnings


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, schedule, timezone, suspend, active, last schedule, age, containers, images, selector."""
    spec, status = at(document, "spec"), at(document, "status")
    suspend = spec.get("suspend")
    last = status.get("lastScheduleTime")
    job = at(spec, "jobTemplate", "spec")
    return [
        name_of(document),
        spec.get("schedule", ""),
        spec.get("timeZone") if spec.get("timeZone") is not None else NONE,
        UNSET if suspend is None else str(suspend),
        len(status.get("active") or ()),
        age(last) if last else NONE,
        created(document, age),
        *container_cells(job.get("template", {})),
        format_selector(job.get("selector")),
    ]


KIND = Kind(
    resource=Resource("batch", "v1", "cronjobs", "CronJob"),
    definition="batch.v1.CronJob",
    short_names=("cj",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=without_status("batch.v1.CronJobStatus"),
        validate_create=_validate_create,
        prepare_update=keep_status,
        validate_update=_validate_update,
        prepare_status=keep_spec,
        warnings=Warnings(create=cron_job_warnings, update=cron_job_change_warnings),
    ),
    cells=_cells,
)
