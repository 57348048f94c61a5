"""Updates objects in place: PUT, and the steps that update, patch and apply have in common.

The store decides about an update with the newest state of the object, so an update never has to be retried. A
resourceVersion or UID in the sent object is a precondition.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go,
staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go,
staging/src/k8s.io/apiserver/pkg/registry/rest/update.go
"""

from collections.abc import Callable
from typing import NamedTuple

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import go_quote, invalid
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver import errors
from pykubelet.apiserver.admission.plugin.webhook.reviews import reviewed
from pykubelet.apiserver.fieldmanager.fieldmanager import keep_times
from pykubelet.apiserver.handlers.create import admit_new, complete_new, read_new_object, stored_new
from pykubelet.apiserver.handlers.options import write_options
from pykubelet.apiserver.handlers.staged_decision import NewVersion, StagedDecision
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
from pykubelet.apiserver.serializer.decoder import decode_in_thread, is_large
from pykubelet.apiserver.storage.codec import key_of, served_document, served_entry, served_text, stored_form
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.kinds.kind import Kind, UpdateChange, UpdateCheck, UpdateWarn


async def update(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    """Replaces an object by the one in the body. Some kinds allow a PUT to create the object."""
    write = WriteRequest(scope, request, write_options(request.query, "UpdateOptions"))
    document = check_name(await decode_in_thread(request, read_new_object, write), write)
    document, warnings = without_repeated_owners(document)
    write.warn(*warnings)
    may_create = write.served.strategy.allows_create_on_update and not request.subresource
    object_update = ObjectUpdate(write)

    def make(existing: StoreEntry | None) -> NewVersion:
        if existing is None and may_create:
            return NewVersion(write.record_owners(document, None), None)
        live = object_update.live(existing)
        _check_uid(document["metadata"].get("uid", ""), live, write)
        return NewVersion(write.record_owners(document, live), live)

    return await object_update.commit(make)


class UpdateStrategy(NamedTuple):
    """The kind's rules for one way of updating its objects: the object itself, or one of its subresources."""

    prepare: UpdateChange
    validate: UpdateCheck
    warnings: UpdateWarn


def update_strategy(served: Kind, subresource: str) -> UpdateStrategy:
    """The rules for updates through a subresource (empty: of the object itself)."""
    strategy = served.strategy
    if subresource == "status":
        return UpdateStrategy(strategy.prepare_status, strategy.validate_status, strategy.warnings.status)
    strategy = served.subresource_strategies.get(subresource, strategy)
    return UpdateStrategy(strategy.prepare_update, strategy.validate_update, strategy.warnings.update)


class ObjectUpdate:
    """One update of a stored object by any verb.

    The verb passes a function to `commit`, which is called with the stored entry. It gets the live object from `live`
    and returns the new one with its defaults and field owners; without a live object, the new one is created.
    """

    def __init__(self, write: WriteRequest, strategy: UpdateStrategy | None = None, *, admits: bool = True) -> None:
        self._write, self._admits = write, admits
        self._strategy = strategy or update_strategy(write.served, write.request.subresource)
        self._created = False
        self._removed: Document | None = None

    def live(self, existing: StoreEntry | None) -> Document:
        """The stored object in the request's version; NotFound if there is none."""
        served = self._write.served
        if existing is None:
            raise errors.not_found(served.resource, self._write.request.name)
        return served_document(served, existing)

    def _admit(self, version: NewVersion) -> Document:
        write, new = self._write, check_name(version.new, self._write)
        if version.live is None:
            write.authorize_create()
            return admit_new(write, new)
        if not self._admits:
            return new
        admitted = write.admit("update", write.request.name, new, version.live)
        assert admitted is not None
        return admitted

    def _complete(self, admitted: Document, old: Document | None) -> Document:
        """The admitted object, prepared and validated."""
        write, strategy = self._write, self._strategy
        resource, name = write.served.resource, write.request.name
        if old is None:
            return complete_new(write, admitted, name)
        current = old["metadata"]
        admitted, warnings = without_repeated_owners(admitted, when=AFTER_ADMISSION)
        write.warn(*warnings)
        _check_version(admitted["metadata"].get("resourceVersion") or "", current["resourceVersion"], write)
        # No request can set the generation; the kind's strategy increments it.
        new = with_metadata(admitted, resourceVersion=current["resourceVersion"], generation=current.get("generation"))
        new = carried_over(strategy.prepare(new, old), old)
        found = update_errors(new, old, namespaced=resource.namespaced) + strategy.validate(new, old)
        if found:
            raise errors.invalid_object(resource, name, found)
        write.warn(*strategy.warnings(new, old))
        return keep_times(new, old)

    def _finish(self, new: Document, _existing: StoreEntry | None, old: Document | None) -> Document | None:
        """The document to store; None to remove the object."""
        self._created, self._removed = old is None, None
        if old is None:
            return stored_new(self._write, new)
        if self._admits:
            self._write.validate("update", self._write.request.name, new, old)
        if has_nothing_left(new, old):
            self._removed = new
            return None
        return stored_form(self._write.served, new)

    async def commit(self, make: Callable[[StoreEntry | None], NewVersion]) -> ApiResponse:
        """Writes the object that `make` returns, or only computes it for a dry run; the response is the new object."""
        write, served, store = self._write, self._write.served, self._write.scope.store
        key = key_of(served, write.namespace, write.request.name)
        runs_ahead, large = write.scope.reviews is None, is_large(write.request)
        decision = StagedDecision(make, self._admit, self._complete, self._finish, runs_ahead)

        async def stored() -> StoreEntry | bytes:
            if not write.options.dry_run:
                entry = await decision.write(store, key, is_large=large)
                return b"" if entry is None else served_entry(served, entry)
            if (computed := await decision.dry_run(store, key, is_large=large)) is None:
                return b""
            existing = store.newest(key)
            version = existing.document["metadata"]["resourceVersion"] if existing is not None else None
            return served_text(served, encode(with_metadata(computed, resourceVersion=version)))

        body = await reviewed(stored)
        if self._removed is not None:
            # The update removed the last finalizer: the response is the object as it would have been stored.
            body = encode(self._removed)
        return ApiResponse(body=body, code=201 if self._created else 200)


def check_name(document: Document, write: WriteRequest) -> Document:
    """Puts the document into the request's namespace; BadRequest if its name is not the path's."""
    document = in_namespace(document, write.namespace)
    name, in_path = document["metadata"].get("name", ""), write.request.name
    if not name:
        raise BadRequest(f"the name of the object ({in_path} based on URL) was undeterminable: name must be provided")
    if name != in_path:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({in_path})")
    return document


def _check_uid(expected: str, live: Document, write: WriteRequest) -> None:
    resource, name, current = write.served.resource, write.request.name, live["metadata"]["uid"]
    if expected and expected != current:
        path = "/".join(filter(None, ("/registry", resource.plural, write.namespace, name)))
        why = (
            f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {expected}, UID in object meta: {current}"
        )
        raise errors.conflict(resource, name, why)


def _check_version(expected: str, current: str, write: WriteRequest) -> None:
    served, name = write.served, write.request.name
    if expected in ("", "0"):
        if not served.strategy.allows_unconditional_update:
            error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(served.resource.plural, served.resource.group, name, [error])
    elif not (expected.isascii() and expected.isdigit()):
        raise BadRequest(f"strconv.ParseUint: parsing {go_quote(expected)}: invalid syntax")
    elif expected != current:
        raise errors.conflict(served.resource, name)
