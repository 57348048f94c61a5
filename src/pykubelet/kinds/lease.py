"""Lease: the holder of a lock, and the heartbeat of a node.

Upstream: pkg/registry/coordination/lease/strategy.go, pkg/apis/coordination/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy
from pykubelet.kinds.metadata import NOT_NEGATIVE, metadata_errors, metadata_update_errors

# Fields of coordinated leader election, whose feature gate is off.
_DISABLED = ("strategy", "preferredHolder")


def _default(document: Document) -> Document:
    return normal_form(document, "coordination.v1.Lease")


def _prepare_create(lease: Document) -> Document:
    if not any(name in lease["spec"] for name in _DISABLED):
        return lease
    return {**lease, "spec": {name: value for name, value in lease["spec"].items() if name not in _DISABLED}}


def _validate(lease: Document) -> list[FieldError]:
    return metadata_errors(lease["metadata"]) + _spec_errors(lease["spec"])


def _spec_errors(spec: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
    return errors


def _prepare_update(new: Document, _old: Document) -> Document:
    return _prepare_create(new)


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"]) + _spec_errors(new["spec"])


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, holder, age."""
    return [name_of(document), at(document, "spec").get("holderIdentity", ""), created(document, age)]


KIND = Kind(
    resource=Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    definition="coordination.v1.Lease",
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        allows_create_on_update=True,
        allows_unconditional_update=False,
    ),
    cells=_cells,
    keeps_history=False,
)
