"""Delete one object, or all that are selected.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/delete.go, registry/generic/registry/store.go (Delete, DeleteCollection),
pkg/registry/core/namespace/storage/storage.go (namespaces end in their own way)
"""

from dataclasses import replace

from pykubelet.api.errors import NotFound
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver import failures
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.large_bodies import read_aside
from pykubelet.apiserver.namespaces.deletion import namespace_verdict
from pykubelet.apiserver.objects.deletion import (
    JOB_WARNING,
    RETURNS_OBJECT,
    DeleteOptions,
    Verdict,
    check_preconditions,
    delete_options,
    verdict,
)
from pykubelet.apiserver.objects.stored_forms import (
    item_text,
    key_of,
    list_head,
    served_document,
    served_text,
    stored_form,
)
from pykubelet.apiserver.requests.query import WriteOptions, list_options
from pykubelet.apiserver.requests.selection import selection
from pykubelet.apiserver.store import Entry, Write
from pykubelet.apiserver.verbs.list import page_of
from pykubelet.apiserver.verbs.means import Means, Writing

_MARKING = ("mark", "mark and remove")


async def delete(means: Means, call: Call) -> Answer:
    """Delete the object; the answer is the object, or a Status if the kind is one of which nobody wants to see it."""
    options = await read_aside(call, delete_options, call.body, call.content_type, call.query)
    _warn(call, options)
    done, entry = await delete_object(means, call, options)
    served = call.served
    # Old clients that ask not to orphan dependents are told that it is not over yet.
    code = 202 if done.action in ("keep", "mark") and options.orphan_dependents is False else 200
    if entry is not None:
        return Answer(body=served_text(served, entry.text), code=code)
    if done.action in _MARKING or served.resource.group_resource in RETURNS_OBJECT:
        return Answer(body=done.document, code=code)
    return Answer(body=_success(call, done.document), code=code)


async def delete_object(
    means: Means, call: Call, options: DeleteOptions, *, admit: bool = True
) -> tuple[Verdict, Entry | None]:
    """Do to the object what the options say, and give it as it was stored if it was marked; NotFound if there is none."""
    deciding = _Deciding(means, call, options, admit=admit)
    key = key_of(call.served, call.namespace, call.name)
    if options.dry_run:
        deciding(means.store.newest(key))
        assert deciding.verdict is not None
        return deciding.verdict, None
    entry = await means.store.write(key, deciding)
    done = deciding.verdict
    assert done is not None
    if done.action not in _MARKING:
        return done, None
    assert entry is not None
    if done.action == "mark and remove":
        # Watchers see the object marked before they see it gone.
        await means.store.write(key, _removing(entry.revision))
    return done, entry


def _removing(revision: int) -> Write:
    """The decision to remove an object, unless somebody changed it after that revision."""

    def decide(existing: Entry | None) -> Document | None:
        return None if existing is None or existing.revision == revision else existing.document

    return decide


async def delete_collection(means: Means, call: Call) -> Answer:
    """Delete every selected object; the answer is the list of them as they were."""
    served = call.served
    listing = replace(list_options(call.query), watch=False)
    chosen = selection(listing.labels, listing.fields, served)
    options = await read_aside(call, delete_options, call.body, call.content_type, call.query)
    _warn(call, options)
    page = page_of(means.store, served, call.namespace, listing, chosen)
    for entry in page.entries:
        one = replace(call, verb="delete", namespace=entry.key.namespace, name=entry.key.name)
        try:
            await delete_object(means, one, options)
        except NotFound:
            continue
    items = b",".join([item_text(served, entry.text) for entry in page.entries])
    body = b"".join((list_head(served), encode(page.metadata), b',"items":[', items, b"]}"))
    return Answer(body=body)


class _Deciding:
    """The decision of one deletion, and what it came to."""

    def __init__(self, means: Means, call: Call, options: DeleteOptions, *, admit: bool) -> None:
        self._means, self._call, self._options, self._admit = means, call, options, admit
        self.verdict: Verdict | None = None

    def __call__(self, existing: Entry | None) -> Document | None:
        served, call = self._call.served, self._call
        if existing is None:
            raise failures.not_found(served.resource, call.name)
        old = served_document(served, existing)
        now = self._means.clock.now()
        if served.resource.group_resource == "namespaces":
            decided = namespace_verdict(self._options, old, served, now)
        else:
            check_preconditions(self._options, old, served)
            decided = verdict(self._options, old, served, now)
        if self._admit:
            writing = Writing(call, WriteOptions(dry_run=self._options.dry_run))
            writing.admit(self._means, "delete", call.name, None, old)
        self.verdict = decided
        if decided.action == "remove":
            return None
        return existing.document if decided.action == "keep" else stored_form(served, decided.document)


def _success(call: Call, document: Document) -> Document:
    resource, metadata = call.served.resource, document["metadata"]
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def _warn(call: Call, options: DeleteOptions) -> None:
    if call.served.resource.group_resource == "jobs.batch" and options.leaves_dependents_open:
        call.warnings.append(JOB_WARNING)
