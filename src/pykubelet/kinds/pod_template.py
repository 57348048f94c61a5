"""Complaints about a pod template.

In: a template after `default_pod_template_spec`. Out: complaints with the paths and texts of the API server.

Upstream: ValidatePodTemplateSpec in pkg/apis/core/validation/validation.go

The pod template of a workload as it is read: with defaults, without what is not supported.

Upstream: SetDefaults_PodSpec in pkg/apis/core/v1/defaults.go, DropDisabledTemplateFields in pkg/api/pod/util.go

Warnings about what makes pods: sets, jobs, controllers and templates.

Upstream: pkg/registry/apps, pkg/registry/batch, pkg/registry/core/{podtemplate,replicationcontroller}, pkg/api/job/warnings.go

Complaints about how the selector and the template of a set of pods fit together.

Upstream: ValidateReplicaSetSpec, ValidatePodTemplateSpecForReplicaSet and their like in
pkg/apis/apps/validation/validation.go
"""

from dataclasses import replace

from pykubelet.api.field_errors import FieldError, TypedString, forbidden, invalid, not_supported, required
from pykubelet.api.labels import Selector, SelectorError, selector_from_document
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import label_selector_value, map_value
from pykubelet.kinds.metadata import annotations_errors, immutable_errors, label_selector_errors, labels_errors
from pykubelet.kinds.persistent_volume_claim import claim_spec_warnings
from pykubelet.kinds.pod.defaults import default_pod_template_spec
from pykubelet.kinds.pod.features import API_SERVER_OPTIONS, without_disabled_fields
from pykubelet.kinds.pod.security import profile_match_errors
from pykubelet.kinds.pod.validation import pod_annotations_errors, validate_pod_spec
from pykubelet.kinds.pod.warnings import name_warnings, template_warnings

_OPTIONS = replace(API_SERVER_OPTIONS, resource_is_pod=False)


def pod_template_errors(template: Document, path: str) -> list[FieldError]:
    """What is wrong with a pod template."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    annotations = metadata.get("annotations", {})
    errors = template_metadata_errors(template, path)
    errors += validate_pod_spec(spec, {}, f"{path}.spec", _OPTIONS)
    errors += profile_match_errors(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors


def template_metadata_errors(template: Document, path: str) -> list[FieldError]:
    """What is wrong with the labels and annotations of a template; upstream leaves `metadata` out of their paths."""
    metadata = template.get("metadata", {})
    annotations = metadata.get("annotations", {})
    return [
        *labels_errors(metadata.get("labels", {}), f"{path}.labels"),
        *annotations_errors(annotations, f"{path}.annotations"),
        *pod_annotations_errors(annotations, template.get("spec", {}), f"{path}.annotations"),
    ]


_MISMATCH = "`selector` does not match template `labels`"


def replica_template_errors(spec: Document, path: str, owner: str) -> list[FieldError]:
    """What is wrong with the selector and the template of a set of equal pods; `owner` names it in a complaint."""
    selector, template = spec.get("selector"), spec.get("template", {})
    errors = set_selector_errors(selector, f"{path}.selector", owner)
    parsed = parsed_selector(selector)
    if parsed is None:
        return [*errors, invalid(f"{path}.selector", label_selector_value(selector), "invalid label selector")]
    if not parsed.empty():
        errors += label_mismatch_errors(parsed, template, f"{path}.template")
    errors += pod_template_errors(template, f"{path}.template")
    return errors + running_template_errors(template, f"{path}.template", "ReplicaSet")


def selector_change_errors(new: Document, old: Document) -> list[FieldError]:
    """Whether an update would change the selector."""
    after, before = new["spec"].get("selector"), old["spec"].get("selector")
    return immutable_errors(after, before, "spec.selector", shown=label_selector_value(after))


def running_template_errors(template: Document, path: str, owner: str) -> list[FieldError]:
    """Whether the pods of an owner that replaces them run for ever, as it needs."""
    spec = template.get("spec", {})
    policy = spec.get("restartPolicy", "")
    errors: list[FieldError] = []
    if policy != "Always":
        errors.append(not_supported(f"{path}.spec.restartPolicy", TypedString(policy), ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden(f"{path}.spec.activeDeadlineSeconds", detail))
    return errors


def set_selector_errors(selector: Document | None, path: str, owner: str) -> list[FieldError]:
    """What is wrong with a selector that must be there and select something."""
    if selector is None:
        return [required(path)]
    errors = label_selector_errors(selector, path)
    return errors + empty_selector_errors(selector, path, owner)


def empty_selector_errors(selector: Document | None, path: str, owner: str) -> list[FieldError]:
    """Whether the selector selects everything."""
    if selector is None or selector.get("matchLabels") or selector.get("matchExpressions"):
        return []
    return [invalid(path, label_selector_value(selector), f"empty selector is invalid for {owner}")]


def parsed_selector(selector: Document | None) -> Selector | None:
    """What the selector selects (nothing, if there is none); None if it is no selector."""
    try:
        return selector_from_document(selector)
    except SelectorError:
        return None


def label_mismatch_errors(selector: Selector | None, template: Document, path: str) -> list[FieldError]:
    """Whether the selector passes over pods of the template; one that is no selector has its own complaint."""
    labels = template.get("metadata", {}).get("labels", {})
    if selector is None or selector.matches(labels):
        return []
    return [invalid(f"{path}.metadata.labels", map_value(labels), _MISMATCH)]


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


def read_template(template: Document) -> Document:
    """The template as a workload keeps it."""
    filled = default_pod_template_spec(template)
    return {**filled, "spec": without_disabled_fields(filled["spec"])}
