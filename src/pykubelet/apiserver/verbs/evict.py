"""Evict a pod: delete it, if its disruption budget allows that.

Upstream: pkg/registry/core/pod/storage/eviction.go
"""

from dataclasses import replace

from pykubelet.api.errors import BadRequest
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.failures import not_found
from pykubelet.apiserver.large_bodies import read_aside
from pykubelet.apiserver.objects.deletion import DeleteOptions, check_preconditions, delete_options
from pykubelet.apiserver.objects.object_metadata import in_namespace
from pykubelet.apiserver.objects.stored_forms import in_order, key_of
from pykubelet.apiserver.requests.bodies import read_object, warnings_of
from pykubelet.apiserver.requests.query import write_options
from pykubelet.apiserver.store import Entry, Key
from pykubelet.apiserver.subresources.evictions import (
    BUDGETS,
    EVICTION,
    OLD_API_VERSION,
    budget_of,
    disrupted,
    disrupts_nothing,
    is_unprotected,
    marked,
)
from pykubelet.apiserver.verbs.bind import CREATED
from pykubelet.apiserver.verbs.delete import delete_object
from pykubelet.apiserver.verbs.means import Means, Writing, now_text


async def evict(means: Means, call: Call) -> Answer:
    """Delete the pod unless its budget forbids it."""
    writing = Writing(call, write_options(call.query, "CreateOptions"))
    eviction = await read_aside(call, _received, writing)
    options = _options(eviction, writing)
    writing.admit(means, "create", call.name, eviction, None)
    pod = _newest(means, call)
    if not disrupts_nothing(pod):
        await _ask_budget(means, call, pod, dry_run=options.dry_run)
    if not options.dry_run:
        options = await _marked(means, call, options)
    await delete_object(means, replace(call, verb="delete", subresource=""), options, admit=False)
    return Answer(body=CREATED, code=201)


def _received(writing: Writing) -> Document:
    call = writing.call
    body = call.body.replace(OLD_API_VERSION.encode(), EVICTION.api_version.encode(), 1)
    eviction, problems = read_object(body, call.content_type, EVICTION)
    writing.warn(*warnings_of(problems, writing.options.field_validation, EVICTION))
    if call.name != eviction["metadata"].get("name", ""):
        raise BadRequest("name in URL does not match name in Eviction object")
    return in_namespace(eviction, call.namespace)


def _options(eviction: Document, writing: Writing) -> DeleteOptions:
    stated = eviction.get("deleteOptions")
    options = delete_options(encode(stated), "", {}) if stated else DeleteOptions()
    return replace(options, dry_run=options.dry_run or writing.options.dry_run)


def _newest(means: Means, call: Call) -> Document:
    entry = means.store.newest(key_of(call.served, call.namespace, call.name))
    if entry is None:
        raise not_found(call.served.resource, call.name)
    return entry.document


async def _ask_budget(means: Means, call: Call, pod: Document, *, dry_run: bool) -> None:
    """Have the budget of the pod count the disruption; TooManyRequests if it allows none."""
    listed = means.store.list(BUDGETS.group_resource, call.namespace).entries
    budget = budget_of(pod, (entry.document for entry in listed))
    if budget is None or is_unprotected(pod, budget):
        return

    def decide(existing: Entry | None) -> Document | None:
        if existing is None:
            return None
        return in_order(disrupted(existing.document, call.name, now_text(means.clock.now())))

    key = Key(BUDGETS.group_resource, call.namespace, budget["metadata"]["name"])
    if dry_run:
        decide(means.store.newest(key))
    else:
        await means.store.write(key, decide)


async def _marked(means: Means, call: Call, options: DeleteOptions) -> DeleteOptions:
    """Write the reason into the pod; a condition on its revision holds for the revision this makes."""

    def decide(existing: Entry | None) -> Document:
        if existing is None:
            raise not_found(call.served.resource, call.name)
        pod = existing.document
        check_preconditions(options, pod, call.served)
        return in_order(marked(pod, now_text(means.clock.now())))

    entry = await means.store.write(key_of(call.served, call.namespace, call.name), decide)
    assert entry is not None
    return options if options.resource_version is None else replace(options, resource_version=str(entry.revision))
