"""Read and change the Scale of an object.

Upstream: pkg/registry/apps/deployment/storage/storage.go (ScaleREST), apiextensions-apiserver's etcd.go (ScaleREST)
"""

from collections.abc import Callable
from dataclasses import replace

from pykubelet.api.errors import BadRequest
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver import failures
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.fields.manage import apply, record
from pykubelet.apiserver.fields.scale import parent_owners, replicas_path, scale_owners
from pykubelet.apiserver.large_bodies import read_aside
from pykubelet.apiserver.objects.object_metadata import in_namespace, with_metadata
from pykubelet.apiserver.objects.stored_forms import served_document
from pykubelet.apiserver.requests.bodies import read_object, warnings_of
from pykubelet.apiserver.requests.patches import read_patch
from pykubelet.apiserver.requests.query import APPLY_PATCH, write_options
from pykubelet.apiserver.subresources.parts import part_of
from pykubelet.apiserver.subresources.scale import SCALE, scale_errors, scale_of, scaled
from pykubelet.apiserver.verbs.apply import applied_configuration
from pykubelet.apiserver.verbs.change import change
from pykubelet.apiserver.verbs.get import stored
from pykubelet.apiserver.verbs.means import Means, Writing, now_text
from pykubelet.apiserver.verbs.patch import patch_type

_Rescale = Callable[[Document], Document]
"""The wanted Scale, given the present one."""


async def scale(means: Means, call: Call) -> Answer:
    """Serve whatever is asked of the subresource."""
    if call.verb == "get":
        return Answer(body=encode(scale_of(served_document(call.served, stored(means, call)), call.served.scale)))
    if call.verb == "update":
        writing = Writing(call, write_options(call.query, "UpdateOptions"))
        return await _rescaled(means, writing, await read_aside(call, _replaced, means, writing))
    kind = patch_type(call)
    writing = Writing(call, write_options(call.query, "PatchOptions", patch_type=kind))
    if kind == APPLY_PATCH:
        return await _rescaled(means, writing, await read_aside(call, _applied, means, writing))
    return await _rescaled(means, writing, await read_aside(call, _patched, means, writing, kind))


async def _rescaled(means: Means, writing: Writing, rescale: _Rescale) -> Answer:
    served = writing.served

    path = replicas_path(served.scale.replicas)

    def wanted(live: Document | None) -> Document:
        assert live is not None
        entries = live["metadata"].get("managedFields") or ()
        present = with_metadata(scale_of(live, served.scale), managedFields=scale_owners(entries, path))
        new = rescale(present)
        _check(new, live, writing)
        of_scale = new["metadata"].get("managedFields") or ()
        owners = parent_owners(entries, of_scale, api_version=served.resource.api_version, path=path)
        return with_metadata(scaled(live, new, served.scale), managedFields=owners or None)

    # A Scale changes the object itself, by the rules of the object itself.
    answer = await change(means, writing, wanted, part=part_of(served, ""))
    return replace(answer, body=scale_of(answer.document, served.scale))


def _check(scale: Document, live: Document, writing: Writing) -> None:
    resource, name = writing.served.resource, writing.call.name
    in_body = scale["metadata"].get("name", "")
    if in_body != name:
        raise BadRequest(f"the name of the object ({in_body}) does not match the name on the URL ({name})")
    if errors := scale_errors(scale):
        raise failures.invalid("Scale", "autoscaling", name, errors)
    uid, current = scale["metadata"].get("uid"), live["metadata"]["uid"]
    if uid and uid != current:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        raise failures.conflict(resource, name, why, subresource="scale")


def _replaced(means: Means, writing: Writing) -> _Rescale:
    call = writing.call
    document, problems = read_object(call.body, call.content_type, SCALE)
    writing.warn(*warnings_of(problems, writing.options.field_validation, SCALE))
    wanted = in_namespace(document, writing.namespace)
    return lambda present: _recorded(means, writing, wanted, present)


def _patched(means: Means, writing: Writing, kind: str) -> _Rescale:
    patch = read_patch(kind, writing.call.body, SCALE)

    def wanted(present: Document) -> Document:
        document, problems = patch.applied_to(present)
        writing.warn(*patch.warnings(problems, document, writing.options.field_validation))
        return _recorded(means, writing, document, present)

    return wanted


def _recorded(means: Means, writing: Writing, new: Document, present: Document) -> Document:
    return record(
        new,
        present,
        definition=SCALE.definition,
        manager=writing.manager,
        api_version=SCALE.api_version,
        subresource=writing.call.subresource,
        now=now_text(means.clock.now()),
    )


def _applied(means: Means, writing: Writing) -> _Rescale:
    configuration = applied_configuration(writing)
    return lambda present: apply(
        present,
        configuration,
        definition=SCALE.definition,
        manager=writing.options.field_manager,
        api_version=SCALE.api_version,
        subresource=writing.call.subresource,
        now=now_text(means.clock.now()),
        force=writing.options.force,
    )
