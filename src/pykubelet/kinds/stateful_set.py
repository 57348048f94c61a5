"""StatefulSet: pods with stable names and volumes.

Upstream: pkg/registry/apps/statefulset/strategy.go, pkg/apis/apps/v1/defaults.go, pkg/apis/apps/v1/conversion.go,
pkg/apis/apps/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.names import dns1123_label_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.go_values import internal_form, label_selector_value
from pykubelet.kinds.kind import Kind, Strategy, Warnings, keep_spec, keep_status, without_fields, without_status
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors, nonnegative_errors
from pykubelet.kinds.persistent_volume_claim import claim_spec_errors, claim_spec_warnings
from pykubelet.kinds.pod.warnings import template_warnings
from pykubelet.kinds.pod_template import (
    container_cells,
    label_mismatch_errors,
    parsed_selector,
    pod_template_errors,
    read_template,
    running_template_errors,
    set_selector_errors,
    template_change_warnings,
    template_metadata_errors,
)
from pykubelet.kinds.replicas import (
    available_errors,
    collision_count_errors,
    counts_errors,
    int_or_percent_errors,
    int_or_percent_number,
    over_100_percent_errors,
    shown,
)

_RETENTION = ("Retain", "Delete")
_RETAINED = {"whenDeleted": "Retain", "whenScaled": "Retain"}
_MUTABLE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)
_IMMUTABLE_DETAIL = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
_SCALED = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_COUNTS = ("replicas", *_SCALED, "observedGeneration", "collisionCount")
_without_status = without_status("apps.v1.StatefulSetStatus")
_KEEPS_ALL = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"


def _default(document: Document) -> Document:
    normal = normal_form(document, "apps.v1.StatefulSet")
    spec = normal["spec"]
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy = {"rollingUpdate": {}, **strategy, "type": "RollingUpdate"}
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy = {**strategy, "rollingUpdate": {"partition": 0, **strategy["rollingUpdate"]}}
    filled = {
        "podManagementPolicy": "OrderedReady",
        "replicas": 1,
        "revisionHistoryLimit": 10,
        **spec,
        "updateStrategy": strategy,
        "persistentVolumeClaimRetentionPolicy": {**_RETAINED, **spec.get("persistentVolumeClaimRetentionPolicy", {})},
        "template": read_template(spec["template"]),
    }
    if "volumeClaimTemplates" in spec:
        filled["volumeClaimTemplates"] = [_default_claim(claim) for claim in spec["volumeClaimTemplates"]]
    return {**normal, "spec": filled}


def _default_claim(claim: Document) -> Document:
    return {
        **claim,
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"volumeMode": "Filesystem", **claim["spec"]},
        "status": {"phase": "Pending", **claim["status"]},
    }


def _without_max_unavailable(document: Document) -> Document:
    """The document without maxUnavailable, which 1.34 keeps only in objects that have it already."""
    spec = document["spec"]
    rolling = spec["updateStrategy"].get("rollingUpdate", {})
    if "maxUnavailable" not in rolling:
        return document
    kept = {key: value for key, value in rolling.items() if key != "maxUnavailable"}
    return {**document, "spec": {**spec, "updateStrategy": {**spec["updateStrategy"], "rollingUpdate": kept}}}


def _validate_create(document: Document) -> list[FieldError]:
    errors = metadata_errors(document["metadata"], name_rule=dns1123_label_errors)
    return errors + _spec_errors(document["spec"], "spec", is_new=True, check_template=True)


def _spec_errors(spec: Document, path: str, *, is_new: bool, check_template: bool) -> list[FieldError]:
    errors = _pod_management_errors(spec["podManagementPolicy"], f"{path}.podManagementPolicy")
    errors += _strategy_errors(spec["updateStrategy"], f"{path}.updateStrategy")
    for name in ("whenDeleted", "whenScaled"):
        policy = spec["persistentVolumeClaimRetentionPolicy"][name]
        if policy not in _RETENTION:
            at = f"{path}.persistentVolumeClaimRetentionPolicy.{name}"
            errors.append(not_supported(at, TypedString(policy), _RETENTION))
    if is_new:
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            errors += claim_spec_errors(claim["spec"], f"{path}.volumeClaimTemplates[{index}].spec")
    errors += counts_errors(spec, path, ("replicas", "minReadySeconds"))
    if "ordinals" in spec:
        errors += nonnegative_errors(spec["ordinals"].get("start", 0), f"{path}.ordinals.start")
    if is_new and (service := spec.get("serviceName")):
        errors += each_invalid(f"{path}.serviceName", service, dns1123_label_errors(service))
    errors += _selected_template_errors(spec, path, check_template=check_template)
    return errors + running_template_errors(spec["template"], f"{path}.template", "StatefulSet")


def _pod_management_errors(policy: str, path: str) -> list[FieldError]:
    if policy in ("OrderedReady", "Parallel"):
        return []
    return [invalid(path, TypedString(policy), "must be 'OrderedReady' or 'Parallel'")] if policy else [required(path)]


def _strategy_errors(strategy: Document, path: str) -> list[FieldError]:
    rolling = strategy.get("rollingUpdate")
    match strategy["type"]:
        case "OnDelete":
            if rolling is None:
                return []
            value = internal_form(rolling, "apps.RollingUpdateStatefulSetStrategy")
            return [invalid(f"{path}.rollingUpdate", value, "only allowed for updateStrategy 'RollingUpdate'")]
        case "RollingUpdate":
            return [] if rolling is None else _rolling_update_errors(rolling, f"{path}.rollingUpdate")
        case _:
            value = internal_form(strategy, "apps.StatefulSetUpdateStrategy")
            return [invalid(path, value, "must be 'RollingUpdate' or 'OnDelete'")]


def _rolling_update_errors(rolling: Document, path: str) -> list[FieldError]:
    errors = nonnegative_errors(rolling["partition"], f"{path}.partition")
    if (unavailable := rolling.get("maxUnavailable")) is None:
        return errors
    at = f"{path}.maxUnavailable"
    errors += int_or_percent_errors(unavailable, at)
    if int_or_percent_number(unavailable) == 0:
        errors.append(invalid(at, shown(unavailable), "cannot be 0"))
    return errors + over_100_percent_errors(unavailable, at)


def _selected_template_errors(spec: Document, path: str, *, check_template: bool) -> list[FieldError]:
    selector, at = spec.get("selector"), f"{path}.template"
    errors = set_selector_errors(selector, f"{path}.selector", "statefulset")
    parsed = parsed_selector(selector)
    if parsed is None:
        return [*errors, invalid(f"{path}.selector", label_selector_value(selector), "")]
    template = _completed_template(spec)
    if not parsed.empty():
        errors += label_mismatch_errors(parsed, template, at)
    if check_template:
        errors += pod_template_errors(template, at)
    # Upstream validates labels and annotations again.
    return errors + template_metadata_errors(template, at)


def _completed_template(spec: Document) -> Document:
    """The template as the controller uses it: with the claims as volumes and generated names."""
    pod = without_fields(spec["template"]["spec"], "subdomain", "hostname")
    claims = {claim["metadata"].get("name", "") for claim in spec.get("volumeClaimTemplates", ())}
    if claims:
        own = [volume for volume in pod.get("volumes", ()) if volume.get("name", "") not in claims]
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(claims)]
        pod["volumes"] = volumes + own
    return {**spec["template"], "spec": pod}


def _prepare_update(new: Document, old: Document) -> Document:
    in_use = "maxUnavailable" in old["spec"]["updateStrategy"].get("rollingUpdate", {})
    return keep_status(new if in_use else _without_max_unavailable(new), old)


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    # A template that became invalid under stricter rules must not block other changes.
    was_good = not _spec_errors(old["spec"], "spec", is_new=False, check_template=True)
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    errors += _spec_errors(new["spec"], "spec", is_new=False, check_template=was_good)
    if without_fields(new["spec"], *_MUTABLE) != without_fields(old["spec"], *_MUTABLE):
        errors.append(forbidden("spec", _IMMUTABLE_DETAIL))
    return errors


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    status = new.get("status", {})
    return [
        *counts_errors(status, "status", _COUNTS),
        *available_errors(status, "status", _SCALED, ready_name="status.readyReplicas"),
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *collision_count_errors(status, old.get("status", {})),
    ]


def stateful_set_warnings(document: Document) -> list[str]:
    """Warns about a new StatefulSet."""
    return template_warnings(document["spec"]["template"], "spec.template") + _set_warnings(document["spec"], "")


def _set_warnings(spec: Document, step: str) -> list[str]:
    warnings = [
        warning
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ()))
        for warning in claim_spec_warnings(claim.get("spec", {}), f"spec.volumeClaimTemplates[{index}]{step}")
    ]
    return [*warnings, _KEEPS_ALL] if spec.get("revisionHistoryLimit", 0) < 0 else warnings


def stateful_set_change_warnings(new: Document, old: Document) -> list[str]:
    """Warns about a changed StatefulSet; the paths into its claim templates are upstream's."""
    return template_change_warnings(new, old) + _set_warnings(new["spec"], ".Spec")


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, ready, age, containers, images."""
    spec, status = at(document, "spec"), at(document, "status")
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(document), ready, created(document, age), *container_cells(spec.get("template", {}))]


KIND = Kind(
    resource=Resource("apps", "v1", "statefulsets", "StatefulSet"),
    definition="apps.v1.StatefulSet",
    short_names=("sts",),
    categories=("all",),
    subresources=("scale", "status"),
    strategy=Strategy(
        default=_default,
        prepare_create=lambda document: _without_max_unavailable(_without_status(document)),
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=keep_spec,
        validate_status=_validate_status,
        warnings=Warnings(create=stateful_set_warnings, update=stateful_set_change_warnings),
    ),
    cells=_cells,
)
