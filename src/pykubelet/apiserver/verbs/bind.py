"""Bind a pod to a node, by pods/binding or by the older collection of bindings.

Upstream: pkg/registry/core/pod/storage/storage.go (BindingREST, LegacyBindingREST)
"""

from dataclasses import replace

from pykubelet.api.errors import BadRequest
from pykubelet.api.resources import PODS
from pykubelet.api.wire import Document
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.failures import not_found
from pykubelet.apiserver.large_bodies import read_aside
from pykubelet.apiserver.objects.object_metadata import in_namespace
from pykubelet.apiserver.objects.stored_forms import in_order
from pykubelet.apiserver.requests.bodies import read_object, warnings_of
from pykubelet.apiserver.requests.query import write_options
from pykubelet.apiserver.store import Entry, Key
from pykubelet.apiserver.subresources.bindings import BINDING, bound, check_binding
from pykubelet.apiserver.verbs.means import Means, Writing, now_text

CREATED: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind(means: Means, call: Call) -> Answer:
    """Put the pod on the node that the Binding of the body names."""
    writing = Writing(call, write_options(call.query, "CreateOptions"))
    binding, problems = await read_aside(call, read_object, call.body, call.content_type, BINDING)
    writing.warn(*warnings_of(problems, writing.options.field_validation, BINDING))
    binding = in_namespace(binding, call.namespace)
    name = call.name or binding["metadata"].get("name", "")
    if name != binding["metadata"].get("name", ""):
        raise BadRequest("name in URL does not match name in Binding object")
    if not call.name:
        # The older collection is about a pod as well.
        writing = replace(writing, call=replace(call, name=name))

    def decide(existing: Entry | None) -> Document:
        admitted = writing.admit(means, "create", name, binding, None)
        assert admitted is not None
        check_binding(admitted)
        if existing is None:
            raise not_found(PODS, name)
        return in_order(bound(existing.document, admitted, now_text(means.clock.now())))

    key = Key(PODS.group_resource, call.namespace, name)
    if writing.options.dry_run:
        decide(means.store.newest(key))
    else:
        await means.store.write(key, decide)
    return Answer(body=CREATED, code=201)
