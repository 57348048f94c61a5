"""Warnings about what makes pods: sets, jobs, controllers and templates.

Upstream: pkg/registry/apps, pkg/registry/batch, pkg/registry/core/{podtemplate,replicationcontroller}, pkg/api/job/warnings.go
"""

from pykubelet.api.warnings.pods import name_warnings, template_warnings
from pykubelet.api.warnings.storage import claim_spec_warnings
from pykubelet.api.wire import Document

_TEMPLATE = "spec.template"
_MANY_COMPLETIONS = 100_000
_MUCH_PARALLELISM = 10_000
_TOO_MANY_INDEXES = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might "
    "not be able to track completedIndexes when a big number of indexes fail"
)
_KEEPS_ALL = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
_ZONE_IN_SCHEDULE = (
    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


def replicas_warnings(document: Document) -> list[str]:
    """About a new Deployment, ReplicaSet or ReplicationController; the last may be without a template."""
    template = document["spec"].get("template")
    return name_warnings(document) + (template_warnings(template, _TEMPLATE) if template is not None else [])


def template_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed Deployment, ReplicaSet or StatefulSet, if what is wished for changed."""
    return template_warnings(new["spec"]["template"], _TEMPLATE) if _is_another(new, old) else []


def replication_controller_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed ReplicationController: upstream looks at the template that it had before."""
    template = old["spec"].get("template")
    return template_warnings(template, _TEMPLATE) if template is not None and _is_another(new, old) else []


def pod_template_warnings(document: Document) -> list[str]:
    """About a new PodTemplate."""
    return template_warnings(document["template"], "template")


def pod_template_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed PodTemplate."""
    return pod_template_warnings(new) if _is_another(new, old) else []


def daemon_set_warnings(document: Document) -> list[str]:
    """About a new DaemonSet."""
    return template_warnings(document["spec"]["template"], _TEMPLATE)


def daemon_set_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed DaemonSet, if its template changed."""
    return daemon_set_warnings(new) if new["spec"]["template"] != old["spec"]["template"] else []


def stateful_set_warnings(document: Document) -> list[str]:
    """About a new StatefulSet."""
    return template_warnings(document["spec"]["template"], _TEMPLATE) + _set_warnings(document["spec"], "")


def stateful_set_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed StatefulSet; paths into its claims are upstream's own here."""
    return template_change_warnings(new, old) + _set_warnings(new["spec"], ".Spec")


def job_warnings(document: Document) -> list[str]:
    """About a new Job."""
    return name_warnings(document) + _job_spec_warnings(document["spec"], "spec")


def job_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed Job."""
    return _job_spec_warnings(new["spec"], "spec") if _is_another(new, old) else []


def cron_job_warnings(document: Document) -> list[str]:
    """About a new CronJob."""
    return name_warnings(document) + _cron_job_spec_warnings(document)


def cron_job_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed CronJob; a new one with a time zone in its schedule would be refused."""
    warnings = _cron_job_spec_warnings(new) if _is_another(new, old) else []
    return [*warnings, _ZONE_IN_SCHEDULE] if "TZ" in new["spec"].get("schedule", "") else warnings


def _is_another(new: Document, old: Document) -> bool:
    """Whether what is wished for changed."""
    return bool(new["metadata"].get("generation") != old["metadata"].get("generation"))


def _set_warnings(spec: Document, step: str) -> list[str]:
    warnings = [
        warning
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ()))
        for warning in claim_spec_warnings(claim.get("spec", {}), f"spec.volumeClaimTemplates[{index}]{step}")
    ]
    return [*warnings, _KEEPS_ALL] if spec.get("revisionHistoryLimit", 0) < 0 else warnings


def _cron_job_spec_warnings(document: Document) -> list[str]:
    return _job_spec_warnings(document["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec")


def _job_spec_warnings(spec: Document, path: str) -> list[str]:
    warnings = template_warnings(spec["template"], f"{path}.template")
    is_large = spec.get("completions", 0) > _MANY_COMPLETIONS and spec.get("parallelism", 0) > _MUCH_PARALLELISM
    return (
        [f"{path}: {_TOO_MANY_INDEXES}", *warnings]
        if is_large and spec.get("completionMode") == "Indexed"
        else warnings
    )
