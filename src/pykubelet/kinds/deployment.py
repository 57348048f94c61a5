"""Deployment: rolling updates of ReplicaSets.

Upstream: pkg/registry/apps/deployment/strategy.go, pkg/apis/apps/v1/defaults.go, pkg/apis/apps/v1/conversion.go,
pkg/apis/apps/validation/validation.go
"""

from typing import Any

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported
from pykubelet.api.normal_form import normal_form
from pykubelet.api.quantity import int64_problem, parse_int64
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of, selector_text
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.kind import (
    Kind,
    Strategy,
    Warnings,
    keep_status,
    next_generation,
    with_metadata,
    without_fields,
    without_status,
)
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors, nonnegative_errors
from pykubelet.kinds.pod_template import (
    container_cells,
    read_template,
    replica_template_errors,
    replicas_warnings,
    selector_change_errors,
    template_change_warnings,
)
from pykubelet.kinds.replicas import (
    available_errors,
    collision_count_errors,
    counts_errors,
    int_or_percent_errors,
    int_or_percent_number,
    over_100_percent_errors,
    shown,
    without_terminating_replicas,
)

ROLLBACK_ANNOTATION = "deprecated.deployment.rollback.to"
_STRATEGY_TYPES = ("Recreate", "RollingUpdate")
_ROLLING_UPDATE = {"maxUnavailable": "25%", "maxSurge": "25%"}
_COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)


def _default(document: Document) -> Document:
    normal = normal_form(document, "apps.v1.Deployment")
    spec = normal["spec"]
    strategy = {"type": "RollingUpdate", **spec["strategy"]}
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**_ROLLING_UPDATE, **strategy.get("rollingUpdate", {})}
    filled = {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        **spec,
        "strategy": strategy,
        "template": read_template(spec["template"]),
    }
    return {**normal, "metadata": _rollback_read(normal["metadata"]), "spec": filled}


def _rollback_read(metadata: Document) -> Document:
    """The metadata with the annotated rollback revision as a plain decimal number."""
    annotations = metadata.get("annotations", {})
    text = annotations.get(ROLLBACK_ANNOTATION)
    if text is None:
        return metadata
    revision = parse_int64(text)
    if text and revision is None:
        raise BadRequest(
            'Deployment in version "v1" cannot be handled as a Deployment: failed to parse '
            f"annotation[{ROLLBACK_ANNOTATION}]={text} as int64: {int64_problem(text)}"
        )
    kept = without_fields(annotations, ROLLBACK_ANNOTATION)
    if text:
        kept[ROLLBACK_ANNOTATION] = str(revision)
    rest = without_fields(metadata, "annotations")
    return {**rest, "annotations": kept} if kept else rest


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + _spec_errors(document)


def _spec_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors = [
        *nonnegative_errors(spec["replicas"], "spec.replicas"),
        *replica_template_errors(spec, "spec", "deployment"),
        *_strategy_errors(spec["strategy"], "spec.strategy"),
        *counts_errors(spec, "spec", ("minReadySeconds", "revisionHistoryLimit")),
    ]
    if revision := document["metadata"].get("annotations", {}).get(ROLLBACK_ANNOTATION):
        errors += nonnegative_errors(int(revision), "spec.rollback.version")
    deadline = spec["progressDeadlineSeconds"]
    errors += nonnegative_errors(deadline, "spec.progressDeadlineSeconds")
    if deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def _strategy_errors(strategy: Document, path: str) -> list[FieldError]:
    match strategy["type"]:
        case "Recreate":
            if "rollingUpdate" not in strategy:
                return []
            return [forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")]
        case "RollingUpdate":
            return _rolling_update_errors(strategy["rollingUpdate"], f"{path}.rollingUpdate")
        case _:
            return [not_supported(path, internal_form(strategy, "apps.DeploymentStrategy"), _STRATEGY_TYPES)]


def _rolling_update_errors(rolling: Document, path: str) -> list[FieldError]:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    errors = int_or_percent_errors(unavailable, f"{path}.maxUnavailable")
    errors += int_or_percent_errors(surge, f"{path}.maxSurge")
    if int_or_percent_number(unavailable) == 0 and int_or_percent_number(surge) == 0:
        errors.append(invalid(f"{path}.maxUnavailable", shown(unavailable), "may not be 0 when `maxSurge` is 0"))
    return errors + over_100_percent_errors(unavailable, f"{path}.maxUnavailable")


def _prepare_update(new: Document, old: Document) -> Document:
    # The controller copies annotations to the ReplicaSets, so a change of them counts as a change of the spec.
    after, before = ((each["spec"], each["metadata"].get("annotations", {})) for each in (new, old))
    return next_generation(keep_status(new, old), old, changed=after != before)


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *_spec_errors(new),
        *selector_change_errors(new, old),
    ]


def _prepare_status(new: Document, old: Document) -> Document:
    return with_metadata(without_terminating_replicas(new, old), labels=old["metadata"].get("labels"))


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    status = new.get("status", {})
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *counts_errors(status, "status", _COUNTS),
        *available_errors(status, "status", ("updatedReplicas", "readyReplicas", "availableReplicas")),
        *collision_count_errors(status, old.get("status", {})),
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, ready, up-to-date, available, age, containers, images, selector."""
    spec, status = at(document, "spec"), at(document, "status")
    return [
        name_of(document),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        created(document, age),
        *container_cells(spec.get("template", {})),
        selector_text(spec.get("selector"), invalid="<invalid>"),
    ]


KIND = Kind(
    resource=Resource("apps", "v1", "deployments", "Deployment"),
    definition="apps.v1.Deployment",
    short_names=("deploy",),
    categories=("all",),
    subresources=("scale", "status"),
    strategy=Strategy(
        default=_default,
        prepare_create=without_status("apps.v1.DeploymentStatus"),
        validate_create=_validate_create,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=_prepare_status,
        validate_status=_validate_status,
        warnings=Warnings(create=replicas_warnings, update=template_change_warnings),
    ),
    cells=_cells,
)
