"""DaemonSet: one pod on each matching node.

The template generation has no field in apps/v1; as upstream, an annotation carries it.

Upstream: pkg/registry/apps/daemonset/strategy.go, pkg/apis/apps/v1/defaults.go, pkg/apis/apps/v1/conversion.go,
pkg/apis/apps/validation/validation.go
"""

from typing import Any

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import FieldError, invalid, not_supported, required
from pykubelet.api.normal_form import normal_form
from pykubelet.api.quantity import int64_problem, parse_int64
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, format_labels, format_selector, name_of
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.kind import Kind, Strategy, Warnings, keep_spec, keep_status, with_metadata, without_status
from pykubelet.kinds.metadata import label_selector_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.pod.warnings import template_warnings
from pykubelet.kinds.pod_template import (
    container_cells,
    empty_selector_errors,
    label_mismatch_errors,
    parsed_selector,
    pod_template_errors,
    read_template,
    running_template_errors,
    selector_change_errors,
)
from pykubelet.kinds.replicas import (
    collision_count_errors,
    counts_errors,
    int_or_percent_errors,
    int_or_percent_number,
    over_100_percent_errors,
    shown,
)

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_UPDATE_TYPES = ("RollingUpdate", "OnDelete")
_ROLLING_UPDATE = {"maxUnavailable": 1, "maxSurge": 0}
_COUNTS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)
_without_status = without_status("apps.v1.DaemonSetStatus")


def _default(document: Document) -> Document:
    normal = normal_form(document, "apps.v1.DaemonSet")
    spec = normal["spec"]
    strategy = {"type": "RollingUpdate", **spec["updateStrategy"]}
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**_ROLLING_UPDATE, **strategy.get("rollingUpdate", {})}
    template = read_template(spec["template"])
    filled = {"revisionHistoryLimit": 10, **spec, "updateStrategy": strategy, "template": template}
    return _with_template_generation({**normal, "spec": filled}, _template_generation(normal))


def _with_template_generation(document: Document, generation: int) -> Document:
    annotations = document["metadata"].get("annotations", {})
    return with_metadata(document, annotations={**annotations, TEMPLATE_GENERATION: str(generation)})


def _template_generation(document: Document) -> int:
    text = document["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION)
    if text is None:
        return 0
    generation = parse_int64(text)
    if generation is None:
        raise BadRequest(f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {int64_problem(text)}')
    return generation


def _prepare_create(document: Document) -> Document:
    return _with_template_generation(_without_status(document), max(1, _template_generation(document)))


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + _spec_errors(document, "spec")


def _spec_errors(document: Document, path: str) -> list[FieldError]:
    spec = document["spec"]
    selector, template, at = spec.get("selector"), spec["template"], f"{path}.template"
    counts = {"templateGeneration": _template_generation(document), **spec}
    return [
        *label_selector_errors(selector, f"{path}.selector"),
        *label_mismatch_errors(parsed_selector(selector), template, at),
        *empty_selector_errors(selector, f"{path}.selector", "daemonset"),
        *pod_template_errors(template, at),
        *running_template_errors(template, at, "DaemonSet"),
        *counts_errors(counts, path, ("minReadySeconds", "templateGeneration")),
        *_strategy_errors(spec["updateStrategy"], f"{path}.updateStrategy"),
        *counts_errors(spec, path, ("revisionHistoryLimit",)),
    ]


def _strategy_errors(strategy: Document, path: str) -> list[FieldError]:
    match strategy["type"]:
        case "OnDelete":
            return []
        case "RollingUpdate":
            return _rolling_update_errors(strategy["rollingUpdate"], f"{path}.rollingUpdate")
        case _:
            return [not_supported(path, internal_form(strategy, "apps.DaemonSetUpdateStrategy"), _UPDATE_TYPES)]


def _rolling_update_errors(rolling: Document, path: str) -> list[FieldError]:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    errors = [
        *int_or_percent_errors(unavailable, f"{path}.maxUnavailable"),
        *int_or_percent_errors(surge, f"{path}.maxSurge"),
        *over_100_percent_errors(unavailable, f"{path}.maxUnavailable"),
        *over_100_percent_errors(surge, f"{path}.maxSurge"),
    ]
    has_unavailable, has_surge = int_or_percent_number(unavailable) != 0, int_or_percent_number(surge) != 0
    if has_unavailable and has_surge:
        errors.append(invalid(f"{path}.maxSurge", shown(surge), "may not be set when maxUnavailable is non-zero"))
    elif not has_unavailable and not has_surge:
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def _prepare_update(new: Document, old: Document) -> Document:
    changed = new["spec"]["template"] != old["spec"]["template"]
    return _with_template_generation(keep_status(new, old), _template_generation(old) + changed)


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *selector_change_errors(new, old),
        *_spec_errors(new, "spec"),
    ]


def _prepare_status(new: Document, old: Document) -> Document:
    return _with_template_generation(keep_spec(new, old), _template_generation(old))


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    status = new.get("status", {})
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *counts_errors(status, "status", _COUNTS),
        *collision_count_errors(status, old.get("status", {})),
    ]


def daemon_set_warnings(document: Document) -> list[str]:
    """Warns about the template of a new DaemonSet."""
    return template_warnings(document["spec"]["template"], "spec.template")


def daemon_set_change_warnings(new: Document, old: Document) -> list[str]:
    """Warns about the template of a DaemonSet if it changed."""
    return daemon_set_warnings(new) if new["spec"]["template"] != old["spec"]["template"] else []


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, desired, current, ready, up-to-date, available, node selector, age, containers, images, selector."""
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
        *container_cells(spec.get("template", {})),
        format_selector(spec.get("selector")),
    ]


KIND = Kind(
    resource=Resource("apps", "v1", "daemonsets", "DaemonSet"),
    definition="apps.v1.DaemonSet",
    short_names=("ds",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=_prepare_status,
        validate_status=_validate_status,
        warnings=Warnings(create=daemon_set_warnings, update=daemon_set_change_warnings),
    ),
    cells=_cells,
)
