"""Read one object: the stored text, as it is.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/get.go, storage/cacher (which revisions can be asked for)
"""

from pykubelet.api.errors import ApiError, BadRequest
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.failures import not_found, too_large_version
from pykubelet.apiserver.objects.stored_forms import key_of, served_text
from pykubelet.apiserver.requests.revisions import parse_revision, unreadable_revision
from pykubelet.apiserver.store import Entry
from pykubelet.apiserver.verbs.means import Means


async def get(means: Means, call: Call) -> Answer:
    """The object, at least as new as the revision asked for; that of a subresource is the object itself."""
    if "export" in call.query:
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    return Answer(body=served_text(call.served, stored(means, call).text))


def stored(means: Means, call: Call) -> Entry:
    """The entry of the object that a call is about; NotFound if there is none."""
    if version := call.query.get("resourceVersion", ""):
        revision = parse_revision(version)
        if revision is None:
            # Upstream gives no reason with this one.
            raise ApiError(unreadable_revision(version))
        if revision > means.store.revision:
            raise too_large_version(revision, means.store.revision)
    entry = means.store.get(key_of(call.served, call.namespace, call.name))
    if entry is None:
        raise not_found(call.served.resource, call.name)
    return entry
