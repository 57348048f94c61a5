"""Job: its defaults, update rules, warnings and columns.

The labels `controller-uid` and `job-name` identify a Job's pods. The server adds them to the template, and the uid to
the selector, unless the user sets a manual selector.

Upstream: pkg/registry/batch/job/strategy.go, pkg/apis/batch/v1/defaults.go, pkg/apis/batch/validation/validation.go,
pkg/api/job/warnings.go
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykubelet.api.field_errors import FieldError, TypedString, invalid, required
from pykubelet.api.names import dns1123_label_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age, human_duration, parse_time
from pykubelet.kinds.columns import at, created, format_selector, name_of
from pykubelet.kinds.go_values import internal_form, label_selector_value, map_value
from pykubelet.kinds.job.status import validate_job_status
from pykubelet.kinds.job.validation import INDEXED, NON_INDEXED, job_spec_errors
from pykubelet.kinds.kind import (
    Kind,
    Strategy,
    Warnings,
    generation_changed,
    keep_spec,
    keep_status,
    metadata_fields,
    with_metadata,
    without_fields,
    without_status,
)
from pykubelet.kinds.metadata import immutable_errors, label_selector_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.pod.warnings import name_warnings, template_warnings
from pykubelet.kinds.pod_template import (
    container_cells,
    label_mismatch_errors,
    parsed_selector,
    read_template,
    selector_change_errors,
)

CONTROLLER_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME = "controller-uid", "job-name"
_NO_BACKOFF_LIMIT = 2**31 - 1
# Mutable fields of the template of a suspended Job that never started, besides node affinity.
_SCHEDULING_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")
_without_status = without_status("batch.v1.JobStatus")
_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
_MANY_COMPLETIONS = 100_000
_MUCH_PARALLELISM = 10_000
_TOO_MANY_INDEXES = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might "
    "not be able to track completedIndexes when a big number of indexes fail"
)


def _default(document: Document) -> Document:
    normal = normal_form(document, "batch.v1.Job")
    spec = normal["spec"]
    filled = {
        **({} if "parallelism" in spec or "completions" in spec else {"completions": 1}),
        "parallelism": 1,
        "backoffLimit": _NO_BACKOFF_LIMIT if "backoffLimitPerIndex" in spec else 6,
        "completionMode": NON_INDEXED,
        "suspend": False,
        "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        "manualSelector": False,
        **default_failure_policy(spec),
        "template": read_template(spec["template"]),
    }
    return {**normal, "spec": filled}


def default_failure_policy(spec: Document) -> Document:
    """The spec with the defaults of its pod failure policy."""
    policy = spec.get("podFailurePolicy")
    if policy is None or not policy.get("rules"):
        return spec
    return {**spec, "podFailurePolicy": {**policy, "rules": [_default_rule(rule) for rule in policy["rules"]]}}


def _default_rule(rule: Document) -> Document:
    if "onPodConditions" not in rule:
        return rule
    patterns = [{**pattern, "status": pattern["status"] or "True"} for pattern in rule["onPodConditions"]]
    return {**rule, "onPodConditions": patterns}


def _prepare_create(document: Document) -> Document:
    generated = document if document["spec"]["manualSelector"] else _with_generated_selector(document)
    return _with_template_labels(_without_status(generated))


def _with_generated_selector(document: Document) -> Document:
    spec, template = document["spec"], document["spec"]["template"]
    own = _own_labels(document["metadata"])
    labels = own | template["metadata"].get("labels", {})
    selector = spec.get("selector", {})
    match_labels = {CONTROLLER_UID: own[CONTROLLER_UID], **selector.get("matchLabels", {})}
    return {
        **document,
        "spec": {
            **spec,
            "selector": {**selector, "matchLabels": match_labels},
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def _own_labels(metadata: Document) -> dict[str, str]:
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    return {LEGACY_CONTROLLER_UID: uid, LEGACY_JOB_NAME: name, CONTROLLER_UID: uid, JOB_NAME: name}


def _with_template_labels(document: Document) -> Document:
    """The Job with the labels of its template if it has none; upstream does so whenever it decodes a Job."""
    template_labels = document["spec"]["template"]["metadata"].get("labels")
    if not template_labels or document["metadata"].get("labels"):
        return document
    return with_metadata(document, labels=template_labels)


def _validate(document: Document) -> list[FieldError]:
    metadata, spec = document["metadata"], document["spec"]
    errors = metadata_errors(metadata) + _generated_selector_errors(document) + _selected_spec_errors(spec)
    completions = spec.get("completions") or 0
    if spec["completionMode"] == INDEXED and completions > 0:
        # The host name of the last pod ends with the last index and must be a valid label.
        name = metadata.get("name", "")
        host = f"{name}-{completions - 1}"
        if dns1123_label_errors(host):
            errors.append(invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {host}"))
    return errors


def _generated_selector_errors(document: Document) -> list[FieldError]:
    metadata, spec = document["metadata"], document["spec"]
    if spec["manualSelector"] or "selector" not in spec:
        return []
    errors = [] if metadata.get("uid") else [required("metadata.uid")]
    expected = _own_labels(metadata)
    labels = spec["template"]["metadata"].get("labels", {})
    for key, value in expected.items():
        errors += _expected_label_errors(labels, key, value)
    parsed = parsed_selector(spec["selector"])
    if parsed is not None and not parsed.matches(expected):
        shown = label_selector_value(spec["selector"])
        errors.append(invalid("spec.selector", shown, "`selector` not auto-generated"))
    return errors


def _expected_label_errors(labels: Mapping[str, str], key: str, value: str) -> list[FieldError]:
    path, detail = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
    if key not in labels:
        return [required(path, detail)]
    return [] if labels[key] == value else [invalid(path, map_value(dict(labels)), detail)]


def _selected_spec_errors(spec: Document) -> list[FieldError]:
    selector = spec.get("selector")
    errors = job_spec_errors(spec, "spec")
    errors += [required("spec.selector")] if selector is None else label_selector_errors(selector, "spec.selector")
    return errors + label_mismatch_errors(parsed_selector(selector), spec["template"], "spec.template")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *_validate(new),
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *_selected_spec_errors(new["spec"]),
        *_change_errors(new, old),
    ]


def _change_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates that an update keeps the immutable fields."""
    after, before = new["spec"], old["spec"]
    return [
        *_completions_change_errors(after, before),
        *selector_change_errors(new, old),
        *_template_change_errors(new, old),
        *_immutable_field_errors(after, before, "completionMode", TypedString),
        *_immutable_field_errors(
            after, before, "podFailurePolicy", lambda policy: internal_form(policy, "batch.PodFailurePolicy")
        ),
        *_immutable_field_errors(after, before, "backoffLimitPerIndex", int),
        *_immutable_field_errors(after, before, "managedBy", TypedString),
        *_immutable_field_errors(
            after, before, "successPolicy", lambda policy: internal_form(policy, "batch.SuccessPolicy")
        ),
    ]


def _completions_change_errors(after: Document, before: Document) -> list[FieldError]:
    completions = after.get("completions")
    if after["completionMode"] != INDEXED:
        return immutable_errors(completions, before.get("completions"), "spec.completions")
    if completions in (before.get("completions"), None, after["parallelism"]):
        return []
    return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]


def _template_change_errors(new: Document, old: Document) -> list[FieldError]:
    after, before = new["spec"]["template"], old["spec"]["template"]
    if old["spec"].get("suspend") and "startTime" not in old.get("status", {}):
        before = _with_scheduling_of(before, after)
    if after == before:
        return []
    return immutable_errors(after, before, "spec.template", shown=internal_form(after, "core.PodTemplateSpec"))


def _with_scheduling_of(before: Document, after: Document) -> Document:
    """The old template with the mutable fields of a suspended Job from the new one."""
    metadata = before["metadata"] | {name: after["metadata"].get(name) for name in ("labels", "annotations")}
    spec = before["spec"] | {name: after["spec"].get(name) for name in _SCHEDULING_FIELDS}
    spec["affinity"] = _affinity(before["spec"].get("affinity"), after["spec"].get("affinity"))
    return {**before, "metadata": _without_nulls(metadata), "spec": _without_nulls(spec)}


def _affinity(before: Document | None, after: Document | None) -> Document | None:
    """The old affinity with the new node affinity."""
    others = without_fields(before or {}, "nodeAffinity")
    if after is None:
        return others or None
    return others | ({"nodeAffinity": after["nodeAffinity"]} if "nodeAffinity" in after else {})


def _without_nulls(document: Document) -> Document:
    return {name: value for name, value in document.items() if value is not None}


def _immutable_field_errors(
    after: Document, before: Document, name: str, form: Callable[[Any], Any]
) -> list[FieldError]:
    value = after.get(name)
    shown = None if value is None else form(value)
    return immutable_errors(value, before.get(name), f"spec.{name}", shown=shown)


def job_warnings(document: Document) -> list[str]:
    """Warns about a new Job."""
    return name_warnings(document) + job_spec_warnings(document["spec"], "spec")


def job_spec_warnings(spec: Document, path: str) -> list[str]:
    """Warns about the spec of a Job or of a CronJob's template."""
    warnings = template_warnings(spec["template"], f"{path}.template")
    is_large = spec.get("completions", 0) > _MANY_COMPLETIONS and spec.get("parallelism", 0) > _MUCH_PARALLELISM
    is_indexed = spec.get("completionMode") == INDEXED
    return [f"{path}: {_TOO_MANY_INDEXES}", *warnings] if is_large and is_indexed else warnings


def job_change_warnings(new: Document, old: Document) -> list[str]:
    return job_spec_warnings(new["spec"], "spec") if generation_changed(new, old) else []


def _fields(document: Document) -> Mapping[str, str]:
    return {**metadata_fields(document), "status.successful": str(document.get("status", {}).get("succeeded", 0))}


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, status, completions, duration, age, containers, images, selector."""
    spec = at(document, "spec")
    return [
        name_of(document),
        _job_state(document),
        _completions(spec, at(document, "status").get("succeeded", 0)),
        _job_duration(at(document, "status"), age),
        created(document, age),
        *container_cells(spec.get("template", {})),
        format_selector(spec.get("selector")),
    ]


def _job_state(document: Document) -> str:
    conditions = at(document, "status").get("conditions") or ()
    # The first condition of a type wins.
    states = {each.get("type"): each.get("status") for each in reversed(conditions)}
    for type, state in _JOB_STATES:
        if states.get(type) == "True" if type else at(document, "metadata").get("deletionTimestamp"):
            return state
    return "Running"


def _completions(spec: Document, succeeded: int) -> str:
    if (completions := spec.get("completions")) is not None:
        return f"{succeeded}/{completions}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Document, age: Age) -> str:
    started, completed = status.get("startTime"), status.get("completionTime")
    if not started:
        return ""
    if not completed:
        return age(started)
    return human_duration((parse_time(completed) - parse_time(started)).total_seconds())


KIND = Kind(
    resource=Resource("batch", "v1", "jobs", "Job"),
    definition="batch.v1.Job",
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate,
        prepare_update=lambda new, old: _with_template_labels(keep_status(new, old)),
        validate_update=_validate_update,
        prepare_status=lambda new, old: _with_template_labels(keep_spec(new, old)),
        validate_status=validate_job_status,
        warnings=Warnings(create=job_warnings, update=job_change_warnings),
        fields=_fields,
    ),
    cells=_cells,
)
