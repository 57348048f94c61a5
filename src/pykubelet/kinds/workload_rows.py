"""Workloads as rows: controllers of pods, jobs, and what limits or scales them.

In: a document. Out: its cells, in the order of its columns.

Upstream: pkg/printers/internalversion/printers.go
"""

from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.api.times import Age, human_duration, parse_time
from pykubelet.kinds.columns import NONE, UNSET, at, created, format_labels, format_selector, name_of, selector_text

_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def replica_set_cells(document: Document, age: Age) -> list[Any]:
    """Name, desired, current, ready, age, containers, images, selector."""
    return [
        *_replica_counts(document, age),
        *_containers(at(document, "spec", "template")),
        format_selector(at(document, "spec").get("selector")),
    ]


def replication_controller_cells(document: Document, age: Age) -> list[Any]:
    """The same; the selector is a plain map."""
    return [
        *_replica_counts(document, age),
        *_containers(at(document, "spec", "template")),
        format_labels(at(document, "spec", "selector")),
    ]


def deployment_cells(document: Document, age: Age) -> list[Any]:
    """Name, ready, up-to-date, available, age, containers, images, selector."""
    spec, status = at(document, "spec"), at(document, "status")
    return [
        name_of(document),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        created(document, age),
        *_containers(spec.get("template", {})),
        selector_text(spec.get("selector"), invalid="<invalid>"),
    ]


def stateful_set_cells(document: Document, age: Age) -> list[Any]:
    """Name, ready, age, containers, images."""
    spec, status = at(document, "spec"), at(document, "status")
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(document), ready, created(document, age), *_containers(spec.get("template", {}))]


def daemon_set_cells(document: Document, age: Age) -> list[Any]:
    """Name, desired, current, ready, up-to-date, available, node selector, age, containers, images, selector."""
    spec, status = at(document, "spec"), at(document, "status")
    return [
        name_of(document),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        format_labels(at(spec, "template", "spec", "nodeSelector")),
        created(document, age),
        *_containers(spec.get("template", {})),
        format_selector(spec.get("selector")),
    ]


def job_cells(document: Document, age: Age) -> list[Any]:
    """Name, status, completions, duration, age, containers, images, selector."""
    spec = at(document, "spec")
    return [
        name_of(document),
        _job_state(document),
        _completions(spec, at(document, "status").get("succeeded", 0)),
        _job_duration(at(document, "status"), age),
        created(document, age),
        *_containers(spec.get("template", {})),
        format_selector(spec.get("selector")),
    ]


def cron_job_cells(document: Document, age: Age) -> list[Any]:
    """Name, schedule, timezone, suspend, active, last schedule, age, containers, images, selector."""
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
        *_containers(job.get("template", {})),
        format_selector(job.get("selector")),
    ]


def pod_template_cells(document: Document, _age: Age) -> list[Any]:
    """Name, containers, images, pod labels."""
    template = at(document, "template")
    return [name_of(document), *_containers(template), format_labels(at(template, "metadata", "labels"))]


def controller_revision_cells(document: Document, age: Age) -> list[Any]:
    """Name, controller, revision, age."""
    owners = at(document, "metadata").get("ownerReferences") or ()
    owner = next((each for each in owners if each.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
        controller = f"{kind.lower()}/{owner.get('name', '')}"
    return [name_of(document), controller, document.get("revision", 0), created(document, age)]


def disruption_budget_cells(document: Document, age: Age) -> list[Any]:
    """Name, min available, max unavailable, allowed disruptions, age."""
    spec = at(document, "spec")
    bounds = (spec.get(name) for name in ("minAvailable", "maxUnavailable"))
    return [
        name_of(document),
        *("N/A" if bound is None else str(bound) for bound in bounds),
        at(document, "status").get("disruptionsAllowed", 0),
        created(document, age),
    ]


def scale_cells(document: Document, age: Age) -> list[Any]:
    """Name, desired, available, age: the scale subresource of anything."""
    spec, status = at(document, "spec"), at(document, "status")
    return [name_of(document), spec.get("replicas", 0), status.get("replicas", 0), created(document, age)]


def _replica_counts(document: Document, age: Age) -> list[Any]:
    status = at(document, "status")
    return [
        name_of(document),
        at(document, "spec").get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        created(document, age),
    ]


def _containers(template: Document) -> tuple[str, str]:
    """Names and images of the containers of a pod template."""
    containers = at(template, "spec").get("containers") or ()
    return ",".join(each.get("name", "") for each in containers), ",".join(each.get("image", "") for each in containers)


def _completions(spec: Document, succeeded: int) -> str:
    if (wanted := spec.get("completions")) is not None:
        return f"{succeeded}/{wanted}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_state(document: Document) -> str:
    conditions = at(document, "status").get("conditions") or ()
    # The first of a type counts.
    states = {each.get("type"): each.get("status") for each in reversed(conditions)}
    for type, state in _JOB_STATES:
        if states.get(type) == "True" if type else at(document, "metadata").get("deletionTimestamp"):
            return state
    return "Running"


def _job_duration(status: Document, age: Age) -> str:
    started, completed = status.get("startTime"), status.get("completionTime")
    if not started:
        return ""
    if not completed:
        return age(started)
    return human_duration((parse_time(completed) - parse_time(started)).total_seconds())
