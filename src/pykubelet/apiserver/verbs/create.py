"""Create an object.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/create.go, registry/generic/registry/store.go (Create)
"""

from pykubelet.api.errors import AlreadyExists
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.failures import already_exists, no_unique_name
from pykubelet.apiserver.large_bodies import read_aside
from pykubelet.apiserver.objects.object_metadata import in_namespace, without_repeated_owners, without_system_fields
from pykubelet.apiserver.objects.stored_forms import key_of, served_text, stored_form
from pykubelet.apiserver.requests.bodies import read_object, warnings_of
from pykubelet.apiserver.requests.query import write_options
from pykubelet.apiserver.store import Entry
from pykubelet.apiserver.verbs.means import Means, Writing, expected_of
from pykubelet.apiserver.verbs.new_object import generated_name, new_object

_ATTEMPTS = 8
"""Names made up for one object before giving up: enough for a million objects with one prefix."""


async def create(means: Means, call: Call) -> Answer:
    """Create the object of the body."""
    writing = Writing(call, write_options(call.query, "CreateOptions"))
    document = await read_aside(call, received, writing)
    document = in_namespace(without_system_fields(document), writing.namespace)
    document, warnings = without_repeated_owners(document)
    writing.warn(*warnings)
    text = await _stored(means, writing, document)
    return Answer(body=text, code=201)


def received(writing: Writing) -> Document:
    """The object of the body with its kind's defaults."""
    call, served = writing.call, writing.served
    expected = expected_of(served)
    document, problems = read_object(call.body, call.content_type, expected)
    problems += [f'unknown field "{path}"' for path in served.strategy.unknown(document)]
    writing.warn(*warnings_of(problems, writing.options.field_validation, expected))
    return served.strategy.default(document)


async def _stored(means: Means, writing: Writing, document: Document) -> bytes:
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


async def _stored_as(means: Means, writing: Writing, document: Document, name: str) -> bytes:
    served = writing.served

    def decide(existing: Entry | None) -> Document:
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
