"""Describes workloads: deployments, replica sets, stateful sets, daemon sets, jobs and cron jobs.

Upstream: staging/src/k8s.io/kubectl/pkg/describe/describe.go
"""

from collections.abc import Sequence

from pykubelet.api.labels import selector_from_document
from pykubelet.api.serializer import Document
from pykubelet.api.times import human_duration, parse_time
from pykubelet.cli.printers.describe.pods import add_template, owned, phases
from pykubelet.cli.printers.describe.report import (
    NONE,
    UNSET,
    DescribedObject,
    Report,
    controller,
    go_bool,
    pairs,
    part,
    title_bool,
    when,
)

_HASH = "pod-template-hash"


def describe_job(report: Report, subject: DescribedObject) -> None:
    spec, metadata = subject.spec, subject.metadata
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


def _add_times(report: Report, subject: DescribedObject) -> None:
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


def describe_cron_job(report: Report, subject: DescribedObject) -> None:
    spec, metadata = subject.spec, subject.metadata
    report.identity(metadata)
    report.field("Schedule", spec.get("schedule", ""))
    report.some("Time Zone", spec.get("timeZone"))
    report.field("Concurrency Policy", spec.get("concurrencyPolicy", ""))
    report.field("Suspend", title_bool(spec["suspend"]) if spec.get("suspend") is not None else UNSET)
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


def describe_deployment(report: Report, subject: DescribedObject) -> None:
    spec, status = subject.spec, subject.status
    _add_names(report, subject, "Labels", "Annotations", "Selector")
    updated, available, unavailable = (
        f"{status.get(f'{which}Replicas', 0)} {which}" for which in ("updated", "available", "unavailable")
    )
    counts = (
        f"{spec.get('replicas', 1)} desired",
        updated,
        f"{status.get('replicas', 0)} total",
        available,
        unavailable,
    )
    report.field("Replicas", " | ".join(counts))
    strategy = part(spec, "strategy")
    report.field("StrategyType", strategy.get("type", ""))
    report.field("MinReadySeconds", spec.get("minReadySeconds", 0))
    if rolling := strategy.get("rollingUpdate"):
        words = f"{rolling.get('maxUnavailable')} max unavailable, {rolling.get('maxSurge')} max surge"
        report.field("RollingUpdateStrategy", words)
    add_template(report, spec.get("template"))
    _add_conditions(report, status.get("conditions") or ())
    mine = owned(subject.others("replicasets"), subject.metadata["uid"])
    new = [one for one in mine if _plain_template(one) == _plain_template(subject.object)][:1]
    report.field("OldReplicaSets", _sets([one for one in mine if one not in new]))
    report.field("NewReplicaSet", _sets(new))


def describe_replica_set(report: Report, subject: DescribedObject) -> None:
    spec, status = subject.spec, subject.status
    _add_names(report, subject, "Selector", "Labels", "Annotations", with_time=False)
    report.some("Controlled By", controller(subject.metadata))
    report.field("Replicas", f"{status.get('replicas', 0)} current / {spec.get('replicas', 1)} desired")
    report.field("Pods Status", _phases(subject))
    add_template(report, spec.get("template"))
    _add_conditions(report, status.get("conditions") or ())


def describe_stateful_set(report: Report, subject: DescribedObject) -> None:
    spec, status = subject.spec, subject.status
    _add_names(report, subject, "Selector", "Labels", "Annotations")
    report.field("Replicas", f"{spec.get('replicas', 1)} desired | {status.get('replicas', 0)} total")
    strategy = part(spec, "updateStrategy")
    report.field("Update Strategy", strategy.get("type", ""))
    rolling = part(strategy, "rollingUpdate")
    for name, key in (("Partition", "partition"), ("MaxUnavailable", "maxUnavailable")):
        if rolling.get(key) is not None:
            report.field(name, rolling[key], 1)
    report.field("Pods Status", _phases(subject))
    add_template(report, spec.get("template"))
    _add_claims(report, spec.get("volumeClaimTemplates") or ())


def describe_daemon_set(report: Report, subject: DescribedObject) -> None:
    spec, status, metadata = subject.spec, subject.status, subject.metadata
    report.field("Name", metadata["name"])
    report.field("Selector", selector_from_document(spec.get("selector")))
    report.field("Node-Selector", pairs(part(part(spec, "template"), "spec").get("nodeSelector")))
    report.labels("Labels", metadata.get("labels"))
    report.annotations("Annotations", metadata.get("annotations"))
    for words, key in (
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ):
        report.line(f"{words}: {status.get(key, 0)}")
    report.field("Pods Status", _phases(subject))
    add_template(report, spec.get("template"))


def _add_names(report: Report, subject: DescribedObject, *order: str, with_time: bool = True) -> None:
    metadata = subject.metadata
    report.field("Name", metadata["name"])
    report.field("Namespace", metadata.get("namespace", ""))
    if with_time:
        report.field("CreationTimestamp", when(metadata["creationTimestamp"]))
    for name in order:
        if name == "Labels":
            report.labels(name, metadata.get("labels"))
        elif name == "Annotations":
            report.annotations(name, metadata.get("annotations"))
        else:
            report.field(name, selector_from_document(subject.spec.get("selector")))


def _phases(subject: DescribedObject) -> str:
    if subject.related.get("pods") is None:
        return "unknown: pods may not be seen"
    return phases(subject.others("pods"), subject.metadata["uid"])


def _add_conditions(report: Report, conditions: Sequence[Document]) -> None:
    if not conditions:
        return
    report.line("Conditions:")
    report.columns("Type\tStatus\tReason")
    for one in conditions:
        report.line(f"{one['type']} \t{one['status']}\t{one.get('reason', '')}", 1)


def _plain_template(document: Document) -> Document:
    """The pod template without the label that a deployment adds."""
    template = part(part(document, "spec"), "template")
    metadata = part(template, "metadata")
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _HASH}
    return {**template, "metadata": {**metadata, "labels": labels, "creationTimestamp": None}}


def _sets(sets: Sequence[Document]) -> str:
    shown = (
        f"{one['metadata']['name']} ({part(one, 'status').get('replicas', 0)}/{part(one, 'spec').get('replicas', 1)} "
        "replicas created)"
        for one in sets
    )
    return ", ".join(shown) or NONE


def _add_claims(report: Report, templates: Sequence[Document]) -> None:
    if not templates:
        report.field("Volume Claims", NONE)
        return
    report.line("Volume Claims:")
    for template in templates:
        metadata, spec = part(template, "metadata"), part(template, "spec")
        report.field("Name", metadata.get("name", ""), 1)
        report.field("StorageClass", spec.get("storageClassName") or "", 1)
        report.labels("  Labels", metadata.get("labels"))
        report.annotations("  Annotations", metadata.get("annotations"))
        capacity = part(part(spec, "resources"), "requests").get("storage")
        report.field("Capacity", capacity or "<default>", 1)
        report.field("Access Modes", f"[{' '.join(spec.get('accessModes') or ())}]", 1)
