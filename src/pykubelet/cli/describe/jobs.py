"""Jobs and cron jobs.

Upstream: describeJob and describeCronJob in kubectl/pkg/describe/describe.go.
"""

from pykubelet.api.ages import human_duration
from pykubelet.api.selector import selector_from_document
from pykubelet.api.times import parse_time
from pykubelet.api.wire import Document
from pykubelet.cli.describe.events import add_events
from pykubelet.cli.describe.pods import add_template
from pykubelet.cli.describe.report import NONE, UNSET, Report, controller, go_bool, when, yes_no
from pykubelet.cli.describe.subject import Subject, part


def describe_job(subject: Subject) -> str:
    """A job."""
    report, spec, metadata = Report(), subject.spec, subject.metadata
    report.field("Name", metadata["name"])
    report.field("Namespace", metadata.get("namespace", ""))
    report.field("Selector", selector_from_document(spec.get("selector")))
    report.labels("Labels", metadata.get("labels"))
    report.annotations("Annotations", metadata.get("annotations"))
    report.some("Controlled By", controller(metadata))
    report.some("Parallelism", spec.get("parallelism"))
    report.field("Completions", spec.get("completions", UNSET))
    report.some("Completion Mode", spec.get("completionMode"))
    if spec.get("suspend") is not None:
        report.field("Suspend", go_bool(spec["suspend"]))
    for name, key in (("Backoff Limit", "backoffLimit"), ("TTL Seconds After Finished", "ttlSecondsAfterFinished")):
        if spec.get(key) is not None:
            report.field(name, spec[key])
    _add_times(report, subject)
    report.field("Pods Statuses", _counts(subject.status))
    if spec.get("completionMode") == "Indexed":
        report.field("Completed Indexes", subject.status.get("completedIndexes") or NONE)
    add_template(report, spec.get("template"))
    add_events(report, subject)
    return report.text


def _add_times(report: Report, subject: Subject) -> None:
    started, completed = (subject.status.get(key) for key in ("startTime", "completionTime"))
    if started:
        report.field("Start Time", when(started))
    if completed:
        report.field("Completed At", when(completed))
    if started and completed:
        report.field("Duration", human_duration((parse_time(completed) - parse_time(started)).total_seconds()))
    if subject.spec.get("activeDeadlineSeconds") is not None:
        report.field("Active Deadline Seconds", f"{subject.spec['activeDeadlineSeconds']}s")


def _counts(status: Document) -> str:
    active, succeeded, failed = (status.get(key, 0) for key in ("active", "succeeded", "failed"))
    ready = f" ({status['ready']} Ready)" if status.get("ready") is not None else ""
    return f"{active} Active{ready} / {succeeded} Succeeded / {failed} Failed"


def describe_cron_job(subject: Subject) -> str:
    """A cron job."""
    report, spec, metadata = Report(), subject.spec, subject.metadata
    report.field("Name", metadata["name"])
    report.field("Namespace", metadata.get("namespace", ""))
    report.labels("Labels", metadata.get("labels"))
    report.annotations("Annotations", metadata.get("annotations"))
    report.field("Schedule", spec.get("schedule", ""))
    report.some("Time Zone", spec.get("timeZone"))
    report.field("Concurrency Policy", spec.get("concurrencyPolicy", ""))
    report.field("Suspend", yes_no(spec["suspend"]) if spec.get("suspend") is not None else UNSET)
    report.field("Successful Job History Limit", spec.get("successfulJobsHistoryLimit", UNSET))
    report.field("Failed Job History Limit", spec.get("failedJobsHistoryLimit", UNSET))
    deadline = spec.get("startingDeadlineSeconds")
    report.field("Starting Deadline Seconds", UNSET if deadline is None else f"{deadline}s")
    job = part(part(spec, "jobTemplate"), "spec")
    report.field("Selector", selector_from_document(job["selector"]) if job.get("selector") else UNSET)
    report.field("Parallelism", job.get("parallelism", UNSET))
    report.field("Completions", job.get("completions", UNSET))
    if job.get("activeDeadlineSeconds") is not None:
        report.field("Active Deadline Seconds", f"{job['activeDeadlineSeconds']}s")
    add_template(report, job.get("template"))
    last = subject.status.get("lastScheduleTime")
    report.field("Last Schedule Time", when(last) if last else UNSET)
    report.field("Active Jobs", ", ".join(one["name"] for one in subject.status.get("active") or ()) or NONE)
    add_events(report, subject)
    return report.text
