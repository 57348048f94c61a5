"""A kind as the API server serves it: its names, and the rules that differ from kind to kind.

One generic path serves all kinds (`apiserver/handlers`). A kind's own file builds a `Kind` whose `Strategy` consists of
pure functions on documents; `registry.py` lists the built-in kinds, and apiextensions makes a `Kind` of each version of
a CustomResourceDefinition while the server runs.

The functions at the end serve kinds with a spec and a status. Users write the spec and controllers the status, each
through its own endpoint; a change that arrives through the other one is dropped. `metadata.generation` counts the
changes of the spec, so that a status can say which spec it describes.

SpecCache keeps defaults and validation results of repeated specs. Pods of one ReplicaSet or Job share their spec, so
the work is done for the first two, and the result of the second is reused. The key is the spec's JSON text, which also distinguishes 1, 1.0 and
true; making it costs a tenth of the cached work. A result is kept when its spec appears for the second time, because
keeping results of unique specs would cost an eighth of a pod's creation.

Upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go, staging/src/k8s.io/apiserver/pkg/registry/rest/update.go
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pykubelet.api.field_errors import FieldError
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import Age

Change = Callable[[Document], Document]
"""Returns a changed document and leaves its argument as it is."""
UpdateChange = Callable[[Document, Document], Document]
"""Returns the new document changed, given `(new, old)`."""
Check = Callable[[Document], list[FieldError]]
UpdateCheck = Callable[[Document, Document], list[FieldError]]
Warn = Callable[[Document], list[str]]
UpdateWarn = Callable[[Document, Document], list[str]]
Cells = Callable[[Document, Age], list[Any]]
"""Returns the cells of an object's table row, in the order of the kind's columns."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def _unchanged(document: Document, _old: Document | None = None) -> Document:
    return document


def _nothing(*_documents: Document) -> list[Any]:
    return []


def metadata_fields(document: Document) -> Mapping[str, str]:
    """The fields that a field selector can use for every kind."""
    metadata = document.get("metadata", {})
    return {"metadata.name": metadata.get("name", ""), "metadata.namespace": metadata.get("namespace", "")}


# Limits of a response's warnings in characters, as upstream: all together, and each one if they exceed that.
MAX_WARNING_CHARACTERS = 4096
MAX_LONG_WARNING_CHARACTERS = 256


def as_many_as_sent(texts: Iterable[str]) -> Iterator[str]:
    """The distinct warnings up to those that exceed the limits of a response; the rest is not computed."""
    seen: set[str] = set()
    written = 0
    for text in texts:
        if text in seen:
            continue
        seen.add(text)
        yield text
        written += min(len(text), MAX_LONG_WARNING_CHARACTERS)
        if written > MAX_WARNING_CHARACTERS:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class Warnings:
    """The warnings that a valid write of an object returns to the client."""

    received: Warn = _nothing
    """For a new object before it is prepared and validated, so that a rejection carries the warnings too."""
    create: Warn = _nothing
    update: UpdateWarn = _nothing
    status: UpdateWarn = _nothing

    @classmethod
    def always(cls, warn: Warn, *, status: UpdateWarn = _nothing) -> "Warnings":
        """The same warnings for a new and for a changed object."""
        return cls(create=warn, update=lambda new, _old: warn(new), status=status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The rules of a kind, applied in this order.

    create: default, (admission), prepare_create, validate_create.
    update and patch: default, (admission), prepare_update, validate_update.
    through the status subresource: default, (admission), prepare_status, validate_status.
    `prepare_*` restores what a client may not change (the status on create and update, everything else through status)
    and increments `metadata.generation`. `validate_*` returns upstream's field errors in upstream's order.

    As upstream, `validate_*` includes the metadata with the kind's own rule for names (`metadata_errors`, on update
    `metadata_update_errors`). The handlers check what holds for every kind as well (system fields, names that are valid
    in a path, immutable metadata), so an update reports an error of the metadata twice, as upstream.
    """

    default: Change = _unchanged
    default_patched: UpdateChange | None = None
    """`default` for a patched object; it may skip fields that the patch left as they are stored."""
    prepare_create: Change = _unchanged
    validate_create: Check = _nothing
    prepare_update: UpdateChange = _unchanged
    validate_update: UpdateCheck = _nothing
    prepare_status: UpdateChange = _unchanged
    validate_status: UpdateCheck = _nothing
    warnings: Warnings = Warnings()
    fields: Callable[[Document], Mapping[str, str]] = metadata_fields
    """The values that a field selector can match; a selector of any other field is answered with 400."""
    grace_seconds: Callable[[Document, int | None], int] = field(default=lambda _document, _requested: 0)
    """How long a deletion waits, given the requested grace period (None: the object's own); 0 removes at once."""
    prepare_delete: Change = _unchanged
    """Changes an object at its first deletion request, when it has its deletionTimestamp; may add a finalizer."""
    unknown: Callable[[Document], list[str]] = _nothing
    """The paths of unknown fields of a custom resource; built-in kinds are checked against the schema."""
    allows_create_on_update: bool = False
    allows_unconditional_update: bool = True


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object keeps what its Scale shows, as dotted paths; the selector is a LabelSelector, labels or a text."""

    replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = "spec.selector"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredForm:
    """How the stored form of an object differs from the one that its kind serves."""

    collection: str = ""
    """The collection that objects are stored in; empty for the kind's own."""
    to_served: Change
    to_stored: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One resource: its names in discovery, its schema, its rules and its table columns."""

    resource: Resource
    definition: str = ""
    """The schema definition (`core.v1.Pod`); empty for a custom resource."""
    structural: Document | None = None
    """The OpenAPI schema of a custom resource, as its CustomResourceDefinition states it."""
    singular: str | None = None
    """None for the kind in lower case."""
    list_kind: str = ""
    """Empty for the kind followed by `List`."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    """`status`, `scale`, and those with a handler of their own: `binding`, `eviction`, `token`, `log` ..."""
    strategy: Strategy = field(default_factory=Strategy)
    subresource_strategies: Mapping[str, Strategy] = field(default_factory=dict)
    """The rules of subresources that update the object itself; their `update` rules apply."""
    scale: ScalePaths = ScalePaths()
    """For kinds with the subresource `scale`."""
    columns: Sequence[Document] | None = None
    """The column definitions; None for those in `generated/columns.json`."""
    cells: Cells | None = None
    """None shows the name and the time of creation."""
    row_conditions: Callable[[Document], list[Document] | None] | None = None
    """The conditions of an object's table row."""
    stored: StoredForm | None = None
    """None if objects are stored as they are served."""
    deprecation_warnings: tuple[str, ...] = ()
    """Warnings that every request for this version returns."""

    @property
    def singular_name(self) -> str:
        """The name of one object, as discovery shows it."""
        return self.resource.kind.lower() if self.singular is None else self.singular


def normalized(definition: str) -> Change:
    """Returns a `default` that only brings the object into normal form: the kind has no other defaults."""
    return lambda document: normal_form(document, definition)


def with_metadata(document: Document, **fields: object) -> Document:
    """The document with these fields of its metadata; None removes a field."""
    added = {key: value for key, value in fields.items() if value is not None}
    return {**document, "metadata": without_fields(document["metadata"], *fields) | added}


def first_generation(document: Document) -> Document:
    """A new object of a kind that counts generations."""
    return with_metadata(document, generation=1)


def without_status(status_definition: str) -> Change:
    """Returns a `prepare_create` that resets the status to the fields that are always written."""
    return lambda document: {**first_generation(document), "status": normal_form({}, status_definition)}


def keep_status(new: Document, old: Document) -> Document:
    """Prepares an update: restores the status, and increments the generation if the spec changed."""
    return with_part_of(next_generation(new, old, changed=new.get("spec") != old.get("spec")), old, "status")


def keep_spec(new: Document, old: Document) -> Document:
    """Prepares an update of the status: restores the spec."""
    return with_part_of(next_generation(new, old, changed=False), old, "spec")


def next_generation(new: Document, old: Document, *, changed: bool) -> Document:
    """The new document with the old generation, incremented if the object changed; requests cannot set it."""
    return with_metadata(new, generation=old["metadata"].get("generation", 0) + changed or None)


def generation_changed(new: Document, old: Document) -> bool:
    """Whether a prepared update changes the spec."""
    return bool(new["metadata"].get("generation") != old["metadata"].get("generation"))


def with_part_of(new: Document, old: Document, part: str) -> Document:
    """The new document with a field of the old one."""
    rest = without_fields(new, part)
    return {**rest, part: old[part]} if part in old else rest


def without_fields(document: Document, *names: str) -> Document:
    """A copy of the document, one level deep, that lacks these fields."""
    return {key: value for key, value in document.items() if key not in names}


def restore_status(new: Document, old: Document) -> Document:
    """Prepares an update of a kind without generations: restores the status."""
    return {**new, "status": old["status"]}


def restore_spec(new: Document, old: Document) -> Document:
    """Prepares an update of the status of a kind without generations: restores the spec."""
    return {**new, "spec": old["spec"]}


T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

# The number of results kept, and the largest spec that is cached: a cache takes a few MB at most.
MAX_RESULTS, MAX_SPEC_BYTES = 64, 16 * 1024


class SpecCache(Generic[T]):
    """Results by the JSON text of the spec they were computed from. Results are shared: do not modify them."""

    def __init__(self) -> None:
        self._results: dict[tuple[bytes, Hashable], T] = {}
        self._seen: dict[int, None] = {}

    def of(self, document: Document, make: Callable[[], T], *, also: Hashable = None) -> T:
        """Returns `make()`, or its cached result for an equal document; `also` is what else the result depends on."""
        key = (encode(document), also)
        known = self._results.get(key)
        if known is not None:
            return known
        result = make()
        if hash(key) not in self._seen:
            _put(self._seen, hash(key), None)
        elif len(key[0]) <= MAX_SPEC_BYTES:
            _put(self._results, key, result)
        return result


def _put(entries: dict[K, V], key: K, value: V) -> None:
    """Adds an entry, and removes the oldest one of a full cache."""
    if len(entries) >= MAX_RESULTS:
        # A thread with a large object may add one at the same moment; then there is one more for a while.
        with suppress(KeyError, RuntimeError):
            del entries[next(iter(entries))]
    entries[key] = value
