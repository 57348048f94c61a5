"""Replace an object by the one in the body.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/update.go

Change an object in place: what update, patch and apply have in common.

In: a function from the live object to the one that is wanted. Out: an answer; ApiError if the change must not be. What
is decided is decided on the newest state, so nobody has to try again; a resourceVersion in the object is a condition.

Upstream: k8s.io/apiserver/pkg/registry/generic/registry/store.go (Update), registry/rest/update.go (BeforeUpdate)

Which part of an object a request may change: the whole, its status, or what else has a door.

In: a resource and a subresource. Out: the rules for a change that comes this way.
"""

from collections.abc import Callable
from typing import NamedTuple

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import go_quote, invalid
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver import errors as failures
from pykubelet.apiserver.fieldmanager.fieldmanager import keep_times
from pykubelet.apiserver.handlers.create import new_object, received
from pykubelet.apiserver.handlers.options import write_options
from pykubelet.apiserver.handlers.write import (
    AFTER_ADMISSION,
    RequestScope,
    WriteRequest,
    carried_over,
    has_nothing_left,
    in_namespace,
    update_errors,
    with_metadata,
    without_repeated_owners,
)
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decoder import decode_in_thread
from pykubelet.apiserver.storage.codec import key_of, served_document, served_text, stored_form
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.kinds.kind import Kind, UpdateChange, UpdateCheck, UpdateWarn


class UpdateStrategy(NamedTuple):
    """What becomes of a changed object before it is stored, what is wrong with it, and what is only unwise."""

    prepare: UpdateChange
    validate: UpdateCheck
    warnings: UpdateWarn


def update_strategy(served: Kind, subresource: str) -> UpdateStrategy:
    """The rules for changes through a subresource (empty: of the object itself)."""
    strategy = served.strategy
    if subresource == "status":
        return UpdateStrategy(strategy.prepare_status, strategy.validate_status, strategy.warnings.status)
    if subresource:
        strategy = served.subresource_strategies.get(subresource, strategy)
    return UpdateStrategy(strategy.prepare_update, strategy.validate_update, strategy.warnings.update)


Update = Callable[[Document | None], Document]
"""The wanted object, given the live one (None if there is none), with defaults and managed fields; ApiError to refuse."""


async def update_object(
    means: RequestScope,
    writing: WriteRequest,
    update: Update,
    *,
    may_create: bool = False,
    uid: str = "",
    part: UpdateStrategy | None = None,
) -> ApiResponse:
    """Make the change; `uid` is a condition, `part` how the object may be changed if not as the subresource says."""
    served, call = writing.served, writing.call
    part = part or update_strategy(served, call.subresource)
    deciding = _UpdateDecision(means, writing, update, part, may_create=may_create, uid=uid)
    key = key_of(served, writing.namespace, call.name)
    if writing.options.dry_run:
        existing = means.store.newest(key)
        stored = deciding(existing)
        if stored is not None:
            version = existing.document["metadata"]["resourceVersion"] if existing is not None else None
            text = encode(with_metadata(stored, resourceVersion=version))
            return deciding.answer(served_text(served, text))
    else:
        entry = await means.store.write(key, deciding)
        if deciding.removed is None:
            assert entry is not None
            return deciding.answer(served_text(served, entry.text))
    # What took away the last finalizer is answered with the object as it would have been.
    assert deciding.removed is not None
    return deciding.answer(encode(deciding.removed))


class _UpdateDecision:
    """The decision of one change, and what it came to."""

    def __init__(
        self,
        means: RequestScope,
        writing: WriteRequest,
        update: Update,
        part: UpdateStrategy,
        *,
        may_create: bool,
        uid: str,
    ) -> None:
        self._means, self._writing, self._update, self._part = means, writing, update, part
        self._may_create, self._uid = may_create, uid
        self.created = False
        self.removed: Document | None = None

    def answer(self, text: bytes) -> ApiResponse:
        return ApiResponse(body=text, code=201 if self.created else 200)

    def __call__(self, existing: StoreEntry | None) -> Document | None:
        served, name = self._writing.served, self._writing.call.name
        if existing is None:
            if not self._may_create:
                raise failures.not_found(served.resource, name)
            self.created = True
            wanted = named(self._update(None), self._writing)
            self._writing.check_creation(self._means)
            return stored_form(served, new_object(self._means, self._writing, wanted, name))
        old = served_document(served, existing)
        self._check_uid(old)
        new = self._changed(named(self._update(old), self._writing), old)
        if has_nothing_left(new, old):
            self.removed = new
            return None
        return stored_form(served, new)

    def _changed(self, wanted: Document, old: Document) -> Document:
        served = self._writing.served
        admitted = self._writing.admit(self._means, "update", self._writing.call.name, wanted, old)
        assert admitted is not None
        admitted, warnings = without_repeated_owners(admitted, when=AFTER_ADMISSION)
        self._writing.warn(*warnings)
        current = old["metadata"]
        self._check_version(admitted["metadata"].get("resourceVersion") or "", current["resourceVersion"])
        # No request can set the generation; the kind moves it.
        new = with_metadata(admitted, resourceVersion=current["resourceVersion"], generation=current.get("generation"))
        new = carried_over(self._part.prepare(new, old), old)
        errors = update_errors(new, old, namespaced=served.resource.namespaced)
        errors += self._part.validate(new, old)
        if errors:
            raise failures.invalid_object(served.resource, self._writing.call.name, errors)
        self._writing.warn(*self._part.warnings(new, old))
        return keep_times(new, old)

    def _check_uid(self, old: Document) -> None:
        current = old["metadata"]["uid"]
        if self._uid and self._uid != current:
            resource, call = self._writing.served.resource, self._writing.call
            path = "/".join(filter(None, ("/registry", resource.plural, self._writing.namespace, call.name)))
            why = (
                f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {self._uid}, UID in object meta: {current}"
            )
            raise failures.conflict(resource, call.name, why)

    def _check_version(self, asked: str, current: str) -> None:
        served, name = self._writing.served, self._writing.call.name
        if asked in ("", "0"):
            if not served.strategy.allows_unconditional_update:
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise failures.invalid(served.resource.plural, served.resource.group, name, [error])
        elif not (asked.isascii() and asked.isdigit()):
            raise BadRequest(f"strconv.ParseUint: parsing {go_quote(asked)}: invalid syntax")
        elif asked != current:
            raise failures.conflict(served.resource, name)


def named(document: Document, writing: WriteRequest) -> Document:
    """The document in the request's namespace; BadRequest if it is another object than the path's."""
    document = in_namespace(document, writing.namespace)
    name, in_path = document["metadata"].get("name", ""), writing.call.name
    if not name:
        raise BadRequest(f"the name of the object ({in_path} based on URL) was undeterminable: name must be provided")
    if name != in_path:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({in_path})")
    return document


async def update(means: RequestScope, call: ApiRequest) -> ApiResponse:
    """Replace the object; of kinds that allow it, an object that is not there is created."""
    writing = WriteRequest(call, write_options(call.query, "UpdateOptions"))
    document = named(await decode_in_thread(call, received, writing), writing)
    document, warnings = without_repeated_owners(document)
    writing.warn(*warnings)

    def wanted(live: Document | None) -> Document:
        return writing.recorded(means, document, live)

    return await update_object(
        means,
        writing,
        wanted,
        may_create=call.served.strategy.allows_create_on_update and not call.subresource,
        uid=document["metadata"].get("uid", ""),
    )
