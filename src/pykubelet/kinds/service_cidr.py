"""ServiceCIDR: a range of addresses for Services.

Upstream: pkg/registry/networking/servicecidr/strategy.go, pkg/apis/networking/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, invalid, items_errors, required
from pykubelet.api.names import parse_network
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import SERVICE_CIDRS
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.addresses import canonical_cidr_errors
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, normalized, restore_spec
from pykubelet.kinds.metadata import IMMUTABLE, metadata_errors, metadata_update_errors

_DEFINITION = "networking.v1.ServiceCIDR"
_PATH = "spec.cidrs"
_ONE_OF_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"], namespaced=False) + _spec_errors(document["spec"])


def _spec_errors(spec: Document) -> list[FieldError]:
    ranges = spec.get("cidrs", ())
    if not ranges:
        return [required(_PATH, "at least one CIDR required")]
    if len(ranges) > 2:
        return [invalid(_PATH, {"CIDRs": ranges}, "may only hold up to 2 values")]
    errors = items_errors(ranges, canonical_cidr_errors, _PATH)
    networks = [parse_network(text) for text in ranges]
    if len({network.version for network in networks if network is not None}) < len(networks) and not errors:
        errors.append(invalid(_PATH, ranges, _ONE_OF_EACH))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    """A second range may be added, for the other family; nothing else may change."""
    after, before = new["spec"].get("cidrs", []), old["spec"].get("cidrs", [])
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    is_added = (len(before), len(after)) == (1, 2)
    if len(after) != len(before) and not is_added:
        return [*errors, invalid(_PATH, after, IMMUTABLE)]
    for index, (now, was) in enumerate(zip(after, before, strict=False)):
        errors += [] if now == was else [invalid(f"{_PATH}[{index}]", now, IMMUTABLE)]
    return errors + (_spec_errors(new["spec"]) if is_added else [])


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"])


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, ranges, age."""
    return [name_of(document), ",".join(at(document, "spec").get("cidrs", ())), created(document, age)]


KIND = Kind(
    resource=SERVICE_CIDRS,
    definition=_DEFINITION,
    subresources=("status",),
    strategy=Strategy(
        default=normalized(_DEFINITION),
        prepare_create=lambda document: {**document, "status": normal_form({}, "networking.v1.ServiceCIDRStatus")},
        validate_create=_validate_create,
        prepare_update=lambda new, old: {**new, "status": old["status"]},
        validate_update=_validate_update,
        prepare_status=restore_spec,
        validate_status=_validate_status,
    ),
    cells=_cells,
)
