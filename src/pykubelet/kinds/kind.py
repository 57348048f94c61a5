"""What the server knows of a resource it serves: names, and the rules that differ from kind to kind.

One generic path serves all kinds (`verbs/`). What is special about a kind is a row of `kinds.py` with a `Strategy`:
small pure functions on documents. Upstream: the strategies in pkg/registry.

What kinds with a spec and a status have in common: who writes which, when the generation moves.

Users write the spec, controllers the status, each through its own door; whatever comes through the wrong one is put
back. The generation counts the changes of the spec, so that a status can say which spec it has seen.

Upstream: PrepareForCreate and PrepareForUpdate of the strategies in pkg/registry
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pykubelet.api.field_errors import FieldError
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.customresource import CustomKind

Change = Callable[[Document], Document]
"""Gives a changed document; never changes the one it is given."""
Step = Callable[[Document, Document], Document]
"""The same with the stored document as its second argument: `(new, old)`."""
Check = Callable[[Document], list[FieldError]]
StepCheck = Callable[[Document, Document], list[FieldError]]
Warn = Callable[[Document], list[str]]
StepWarn = Callable[[Document, Document], list[str]]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def _same(document: Document) -> Document:
    return document


def _new(new: Document, _old: Document) -> Document:
    return new


def _fine(_document: Document) -> list[FieldError]:
    return []


def _still_fine(_new: Document, _old: Document) -> list[FieldError]:
    return []


def _none(_document: Document) -> list[str]:
    return []


def _still_none(_new: Document, _old: Document) -> list[str]:
    return []


def metadata_fields(document: Document) -> Mapping[str, str]:
    """The fields every resource can be selected by."""
    metadata = document.get("metadata", {})
    return {"metadata.name": metadata.get("name", ""), "metadata.namespace": metadata.get("namespace", "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Warnings:
    """What whoever writes objects of a kind is warned of, once they passed validation."""

    received: Warn = _none
    """Of a new object before it is prepared and validated, so that a refusal comes with it too."""
    create: Warn = _none
    update: StepWarn = _still_none
    status: StepWarn = _still_none

    @classmethod
    def always(cls, warn: Warn, *, status: StepWarn = _still_none) -> "Warnings":
        """The same for a new and for a changed object."""
        return cls(create=warn, update=lambda new, _old: warn(new), status=status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The rules of a kind, applied in this order.

    create: default, (admission), prepare_create, validate_create.
    update and patch: default, (admission), prepare_update, validate_update.
    through the status subresource: default, (admission), prepare_status, validate_status.
    `prepare_*` puts back what a client may not change (status on create and update, everything else through status)
    and moves `metadata.generation` where the kind does so. `validate_*` gives Kubernetes' own field errors, in its order.

    As upstream, `validate_*` includes the metadata with the kind's own rule for names (`metadata_errors`, on update
    `metadata_update_errors`). What holds for every kind is checked besides: system fields, that the name can stand in a
    path, what an update may not change; so a complaint about metadata appears twice on update, as upstream.
    """

    default: Change = _same
    default_patched: Step | None = None
    """`default` for a patched object, where that can leave alone what the patch did not touch: what is the very same
    value in the stored object."""
    prepare_create: Change = _same
    validate_create: Check = _fine
    prepare_update: Step = _new
    validate_update: StepCheck = _still_fine
    prepare_status: Step = _new
    validate_status: StepCheck = _still_fine
    warnings: Warnings = Warnings()
    fields: Callable[[Document], Mapping[str, str]] = metadata_fields
    """What a field selector may ask for; an unknown field is answered 400."""
    grace_seconds: Callable[[Document, int | None], int] = field(default=lambda _document, _asked: 0)
    """How long a deletion waits, given the grace period asked for (None: the object's own); 0 removes at once."""
    prepare_delete: Change = _same
    """What the object becomes when its deletion is first asked for. It has its deletionTimestamp by then; a finalizer
    that is added here keeps it from being removed at once."""
    unknown: Callable[[Document], list[str]] = _none
    """The paths of fields that the kind does not have. For custom resources; others are checked against the schema."""
    allows_create_on_update: bool = False
    allows_unconditional_update: bool = True


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object keeps what its Scale shows, as dotted paths; the selector is a LabelSelector, labels or a text."""

    replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = "spec.selector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One resource, as discovery names it and as the verbs treat it."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    """`status`, `scale`, and those with a handler of their own: `binding`, `eviction`, `token`, `log` ..."""
    definition: str = ""
    """The schema definition (`core.v1.Pod`); empty for a custom resource."""
    structural: Document | None = None
    """The OpenAPI schema of a custom resource, as its definition states it."""
    custom: CustomKind | None = None
    """What else is special about a custom resource: pruning, columns, scale, versions."""
    strategy: Strategy = field(default_factory=Strategy)
    warnings: tuple[str, ...] = ()
    """What everybody who uses it is told: that this version is deprecated, and what to use instead."""
    keeps_history: bool = True
    """False for what changes all the time and nobody resumes a watch of: events and leases."""
    scale: ScalePaths = ScalePaths()
    """For those with a subresource `scale`."""


def with_metadata(document: Document, **fields: object) -> Document:
    """The document with these fields of its metadata; None takes a field out."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in fields}
    return {**document, "metadata": metadata | {key: value for key, value in fields.items() if value is not None}}


def first_generation(document: Document) -> Document:
    """A new object of a kind that counts generations."""
    return with_metadata(document, generation=1)


def without_status(status_definition: str) -> Change:
    """The change that a new object goes through: no status yet, but what is always written."""

    def prepare(document: Document) -> Document:
        return {**first_generation(document), "status": normal_form({}, status_definition)}

    return prepare


def keep_status(new: Document, old: Document) -> Document:
    """An update by a user: the status stays, the generation moves if the spec does."""
    return with_part_of(next_generation(new, old, changed=new.get("spec") != old.get("spec")), old, "status")


def keep_spec(new: Document, old: Document) -> Document:
    """An update of the status: the spec stays."""
    return with_part_of(next_generation(new, old, changed=False), old, "spec")


def next_generation(new: Document, old: Document, *, changed: bool) -> Document:
    """The new document with the old one's generation, or the one after it; requests cannot set it."""
    generation = old["metadata"].get("generation", 0) + changed
    return with_metadata(new, generation=generation or None)


def with_part_of(new: Document, old: Document, part: str) -> Document:
    """The new document with a field as it was."""
    rest = {key: value for key, value in new.items() if key != part}
    return {**rest, part: old[part]} if part in old else rest
