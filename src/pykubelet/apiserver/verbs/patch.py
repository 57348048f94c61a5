"""Change an object by a patch: JSON patch, merge patch, strategic merge patch, or server-side apply.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/patch.go
"""

from collections.abc import Callable

from pykubelet.api.wire import Document
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.failures import not_found, unknown_format, unknown_patch_type
from pykubelet.apiserver.large_bodies import read_aside
from pykubelet.apiserver.requests.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Patch, read_patch
from pykubelet.apiserver.requests.query import APPLY_PATCH, write_options
from pykubelet.apiserver.served import Served
from pykubelet.apiserver.verbs.apply import applied
from pykubelet.apiserver.verbs.change import Update, change
from pykubelet.apiserver.verbs.means import Means, Writing, expected_of

_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
# Nobody knows how to merge the lists of a kind that has no Go type.
_CUSTOM_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


async def patch(means: Means, call: Call) -> Answer:
    """Apply the patch of the body; server-side apply creates an object that is not there."""
    kind = patch_type(call)
    writing = Writing(call, write_options(call.query, "PatchOptions", patch_type=kind))
    if kind == APPLY_PATCH:
        wanted = await read_aside(call, applied, means, writing)
        return await change(means, writing, wanted, may_create=not call.subresource)
    given = await read_aside(call, read_patch, kind, call.body, expected_of(call.served))
    return await change(means, writing, _patched(means, writing, given))


def patch_type(call: Call) -> str:
    """The content type of a patch; UnsupportedMediaType if it is none that the resource takes."""
    kind = call.content_type.partition(";")[0].strip()
    if call.served.definition:
        if kind not in _TYPES:
            raise unknown_patch_type()
    elif kind not in _CUSTOM_TYPES:
        raise unknown_format(*_CUSTOM_TYPES)
    return kind


def _patched(means: Means, writing: Writing, patch: Patch) -> Update:
    served = writing.served
    finish = completed(writing, patch, served)

    def wanted(live: Document | None) -> Document:
        if live is None:
            raise not_found(served.resource, writing.call.name)
        return writing.recorded(means, finish(live), live)

    return wanted


def completed(writing: Writing, patch: Patch, served: Served) -> Callable[[Document], Document]:
    """The function from a live object to the patched one, checked and with defaults."""

    def patched(live: Document) -> Document:
        document, problems = patch.applied_to(live)
        problems += [f'unknown field "{path}"' for path in served.strategy.unknown(document)]
        writing.warn(*patch.warnings(problems, document, writing.options.field_validation))
        default_patched = served.strategy.default_patched
        return served.strategy.default(document) if default_patched is None else default_patched(document, live)

    return patched
