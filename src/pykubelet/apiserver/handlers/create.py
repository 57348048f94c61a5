"""Create an object.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/create.go, registry/generic/registry/store.go (Create)

From the object that a client sends to the one that is stored: the path of every creation.

In: an object with defaults, in its namespace, its managed fields recorded. Out: the object to store; ApiError if it must
not be. Part of a decision of the store: plain, quick, nothing awaited.

Upstream: k8s.io/apiserver/pkg/registry/rest/create.go (BeforeCreate), registry/generic/registry/store.go (create)
"""

from pykubelet.api.errors import AlreadyExists, ApiError
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver.errors import already_exists, invalid_object, no_unique_name
from pykubelet.apiserver.handlers.options import parse_revision, write_options
from pykubelet.apiserver.handlers.write import (
    AFTER_ADMISSION,
    RequestScope,
    WriteRequest,
    creation_errors,
    expected_of,
    in_namespace,
    now_text,
    with_metadata,
    without_repeated_owners,
    without_system_fields,
)
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decoder import decode_in_thread, read_object, warnings_of
from pykubelet.apiserver.storage.codec import key_of, served_text, stored_form
from pykubelet.apiserver.storage.interfaces import StoreEntry

# What is left of 63 letters, the length of a label, once the suffix stands behind.
_LONGEST_PREFIX = 58


def generated_name(prefix: str, suffix: str) -> str:
    """A name that starts with `generateName`."""
    return f"{prefix[:_LONGEST_PREFIX]}{suffix}"


def new_object(means: RequestScope, writing: WriteRequest, document: Document, name: str) -> Document:
    """The object to store under this name, which may have been made up."""
    served, strategy = writing.served, writing.served.strategy
    document = without_system_fields(document)
    # Admission sees the name that was asked for, not one that was made up meanwhile.
    asked_name = document["metadata"].get("name", "")
    admitted = writing.admit(means, "create", asked_name, document, None)
    assert admitted is not None
    admitted, warnings = without_repeated_owners(admitted, when=AFTER_ADMISSION)
    writing.warn(*warnings)
    made = with_metadata(
        admitted, name=name or None, creationTimestamp=now_text(means.clock.now()), uid=means.ids.uid()
    )
    writing.warn(*strategy.warnings.received(made))
    made = strategy.prepare_create(made)
    errors = strategy.validate_create(made) or creation_errors(made)
    if errors:
        raise invalid_object(served.resource, name, errors)
    writing.warn(*strategy.warnings.create(made))
    if parse_revision(made["metadata"].get("resourceVersion", "")):
        # Upstream gives no reason with this one.
        raise ApiError("resourceVersion should not be set on objects to be created")
    return made


_ATTEMPTS = 8
"""Names made up for one object before giving up: enough for a million objects with one prefix."""


async def create(means: RequestScope, call: ApiRequest) -> ApiResponse:
    """Create the object of the body."""
    writing = WriteRequest(call, write_options(call.query, "CreateOptions"))
    document = await decode_in_thread(call, received, writing)
    document = in_namespace(without_system_fields(document), writing.namespace)
    document, warnings = without_repeated_owners(document)
    writing.warn(*warnings)
    text = await _stored(means, writing, document)
    return ApiResponse(body=text, code=201)


def received(writing: WriteRequest) -> Document:
    """The object of the body with its kind's defaults."""
    call, served = writing.call, writing.served
    expected = expected_of(served)
    document, problems = read_object(call.body, call.content_type, expected)
    problems += [f'unknown field "{path}"' for path in served.strategy.unknown(document)]
    writing.warn(*warnings_of(problems, writing.options.field_validation, expected))
    return served.strategy.default(document)


async def _stored(means: RequestScope, writing: WriteRequest, document: Document) -> bytes:
    metadata = document["metadata"]
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if name or not prefix:
        return await _stored_as(means, writing, document, name)
    for _ in range(_ATTEMPTS):
        name = generated_name(prefix, means.ids.suffix())
        try:
            return await _stored_as(means, writing, document, name)
        except AlreadyExists:
            continue
    raise no_unique_name(writing.served.resource, name)


async def _stored_as(means: RequestScope, writing: WriteRequest, document: Document, name: str) -> bytes:
    served = writing.served

    def decide(existing: StoreEntry | None) -> Document:
        made = new_object(means, writing, writing.recorded(means, document, None), name)
        if existing is not None:
            terminating = "deletionTimestamp" in existing.document["metadata"]
            raise already_exists(served.resource, name, terminating=terminating)
        return stored_form(served, made)

    key = key_of(served, writing.namespace, name)
    if writing.options.dry_run:
        return served_text(served, encode(decide(means.store.newest(key))))
    entry = await means.store.write(key, decide)
    assert entry is not None
    return served_text(served, entry.text)
