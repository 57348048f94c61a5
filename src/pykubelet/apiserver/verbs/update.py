"""Replace an object by the one in the body.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/update.go
"""

from pykubelet.api.wire import Document
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.large_bodies import read_aside
from pykubelet.apiserver.objects.object_metadata import without_repeated_owners
from pykubelet.apiserver.requests.query import write_options
from pykubelet.apiserver.verbs.change import change, named
from pykubelet.apiserver.verbs.create import received
from pykubelet.apiserver.verbs.means import Means, Writing


async def update(means: Means, call: Call) -> Answer:
    """Replace the object; of kinds that allow it, an object that is not there is created."""
    writing = Writing(call, write_options(call.query, "UpdateOptions"))
    document = named(await read_aside(call, received, writing), writing)
    document, warnings = without_repeated_owners(document)
    writing.warn(*warnings)

    def wanted(live: Document | None) -> Document:
        return writing.recorded(means, document, live)

    return await change(
        means,
        writing,
        wanted,
        may_create=call.served.strategy.allows_create_on_update and not call.subresource,
        uid=document["metadata"].get("uid", ""),
    )
