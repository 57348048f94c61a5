"""Creates objects.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go,
staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go,
staging/src/k8s.io/apiserver/pkg/registry/rest/create.go
"""

from pykubelet.api.errors import AlreadyExists, ApiError
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver.admission.plugin.webhook.reviews import reviewed
from pykubelet.apiserver.errors import already_exists, invalid_object, no_unique_name
from pykubelet.apiserver.handlers.options import parse_revision, write_options
from pykubelet.apiserver.handlers.staged_decision import NewVersion, StagedDecision
from pykubelet.apiserver.handlers.write import (
    AFTER_ADMISSION,
    RequestScope,
    WriteRequest,
    creation_errors,
    in_namespace,
    with_metadata,
    without_repeated_owners,
    without_system_fields,
)
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decoder import decode_in_thread, is_large, read_object, warnings_of
from pykubelet.apiserver.serializer.object_size import check_size
from pykubelet.apiserver.storage.codec import key_of, served_entry, served_text, stored_form
from pykubelet.apiserver.storage.interfaces import StoreEntry

# A generated name has at most 63 characters, the length of a label; five of them are the suffix.
_LONGEST_PREFIX = 58
# Generated names to try before giving up: enough for a million objects with one prefix.
_ATTEMPTS = 8


async def create(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    write = WriteRequest(scope, request, write_options(request.query, "CreateOptions"))
    document = await decode_in_thread(request, read_new_object, write)
    document = in_namespace(without_system_fields(document), write.namespace)
    document, warnings = without_repeated_owners(document)
    write.warn(*warnings)
    return ApiResponse(body=await _create(write, document), code=201)


def read_new_object(write: WriteRequest) -> Document:
    """Decodes the object in the body and sets its kind's defaults."""
    request, served = write.request, write.served
    document, problems = read_object(request.body, request.content_type, write.expected)
    problems += [f'unknown field "{path}"' for path in served.strategy.unknown(document)]
    write.warn(*warnings_of(problems, write.options.field_validation, write.expected))
    if not is_large(request):
        return served.strategy.default(document)
    return check_size(served.strategy.default(check_size(document)))


async def _create(write: WriteRequest, document: Document) -> StoreEntry | bytes:
    """Stores the object under its name or a generated one; returns it as it is served."""
    metadata = document["metadata"]
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if name or not prefix:
        return await _create_named(write, document, name)
    for _ in range(_ATTEMPTS):
        name = generated_name(prefix, write.scope.ids.suffix())
        try:
            return await _create_named(write, document, name)
        except AlreadyExists:
            continue
    raise no_unique_name(write.served.resource, name)


def generated_name(prefix: str, suffix: str) -> str:
    return f"{prefix[:_LONGEST_PREFIX]}{suffix}"


async def _create_named(write: WriteRequest, document: Document, name: str) -> StoreEntry | bytes:
    served, store = write.served, write.scope.store
    owned = await write.record_first_owners(document)

    def finish(new: Document, existing: StoreEntry | None, _live: Document | None) -> Document:
        stored = stored_new(write, new)
        if existing is not None:
            terminating = "deletionTimestamp" in existing.document["metadata"]
            raise already_exists(served.resource, name, terminating=terminating)
        return stored

    decision = StagedDecision(
        lambda _: NewVersion(owned, None),
        lambda version: admit_new(write, version.new),
        lambda admitted, _: complete_new(write, admitted, name),
        finish,
        runs_ahead=write.scope.reviews is None,
    )
    key = key_of(served, write.namespace, name)
    large = is_large(write.request)

    async def stored() -> StoreEntry | bytes:
        if write.options.dry_run:
            computed = await decision.dry_run(store, key, is_large=large)
            assert computed is not None
            return served_text(served, encode(computed))
        entry = await decision.write(store, key, is_large=large)
        assert entry is not None
        return served_entry(served, entry)

    return await reviewed(stored)


def admit_new(write: WriteRequest, document: Document) -> Document:
    """The object as the admission plugins change it. Expects defaults and field owners to be set."""
    document = without_system_fields(document)
    # Admission sees the name in the request, not a generated one.
    admitted = write.admit("create", document["metadata"].get("name", ""), document, None)
    assert admitted is not None
    return admitted


def complete_new(write: WriteRequest, admitted: Document, name: str) -> Document:
    """The admitted object under this name, with the server's fields, prepared and validated. Reads nothing else."""
    strategy = write.served.strategy
    admitted, warnings = without_repeated_owners(admitted, when=AFTER_ADMISSION)
    write.warn(*warnings)
    new = with_metadata(admitted, name=name or None, creationTimestamp=write.now, uid=write.scope.ids.uid())
    write.warn(*strategy.warnings.received(new))
    new = strategy.prepare_create(new)
    errors = strategy.validate_create(new) or creation_errors(new)
    if errors:
        raise invalid_object(write.served.resource, name, errors)
    write.warn(*strategy.warnings.create(new))
    return new


def stored_new(write: WriteRequest, new: Document) -> Document:
    """The document to store, if the validating plugins accept it."""
    write.validate("create", new["metadata"]["name"], new, None)
    if parse_revision(new["metadata"].get("resourceVersion", "")):
        # Upstream sends no reason with this error.
        raise ApiError("resourceVersion should not be set on objects to be created")
    return stored_form(write.served, new)
