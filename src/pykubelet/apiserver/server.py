"""The server without HTTP: a call comes in, an answer or a stream goes out.

Out: `Server.handle`, which serves every kind by the generic verbs, and hands over what others serve: subresources with a
handler of their own, and kinds that are never stored.

Upstream: k8s.io/apiserver/pkg/endpoints/installer.go
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.errors import ApiError
from pykubelet.apiserver.admission import Admission
from pykubelet.apiserver.call import Answer, Call, Decision, Review, Stream
from pykubelet.apiserver.failures import no_such_method
from pykubelet.apiserver.objects.deletion import DeleteOptions
from pykubelet.apiserver.registry import Registry
from pykubelet.apiserver.store import Store
from pykubelet.apiserver.verbs.bind import bind
from pykubelet.apiserver.verbs.create import create
from pykubelet.apiserver.verbs.delete import delete, delete_collection, delete_object
from pykubelet.apiserver.verbs.evict import evict
from pykubelet.apiserver.verbs.field_schemas import FieldSchemas
from pykubelet.apiserver.verbs.get import get
from pykubelet.apiserver.verbs.list import list_objects
from pykubelet.apiserver.verbs.means import Means, allow_all
from pykubelet.apiserver.verbs.patch import patch
from pykubelet.apiserver.verbs.scale import scale
from pykubelet.apiserver.verbs.update import update
from pykubelet.apiserver.verbs.watch import watch

Handler = Callable[[Call], Awaitable[Answer]]
Handlers = Mapping[tuple[str, str], Handler]
"""By group resource and subresource: `("serviceaccounts", "token")`; the subresource is empty for a kind of its own.

A handler asks admission itself, if that has a say."""
_Serve = Callable[[Means, Call], Awaitable[Answer | Stream]]

_VERBS: Mapping[str, _Serve] = {
    "get": get,
    "list": list_objects,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}
_CHANGING = frozenset({"status", "ephemeralcontainers", "resize", "finalize", "approval"})
_OF_SUBRESOURCES: Mapping[str, _Serve] = {"scale": scale, "binding": bind, "eviction": evict}


class Server:
    """Serves the kinds of a registry out of a store.

    Who may send a call is decided before; `authorize` is asked only where a change turns out to be a creation.
    """

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        clock: Clock,
        ids: Ids,
        admission: Sequence[Admission] = (),
        handlers: Handlers | None = None,
        authorize: Callable[[Review], Decision] = allow_all,
    ) -> None:
        self._means = Means(
            store=store,
            clock=clock,
            ids=ids,
            schemas=FieldSchemas(registry),
            admission=tuple(admission),
            authorize=authorize,
        )
        self._handlers = dict(handlers or {})

    async def handle(self, call: Call) -> Answer | Stream:
        """Do what is asked; ApiError if it cannot or must not be done. All of these carry the warnings."""
        told = call.warnings
        told += call.served.warnings
        try:
            answer = await self._answered(call)
        except ApiError as error:
            error.warnings = tuple(told)
            raise
        return replace(answer, warnings=tuple(told)) if told else answer

    async def _answered(self, call: Call) -> Answer | Stream:
        resource = call.served.resource.group_resource
        if self._handlers and (handler := self._handlers.get((resource, call.subresource))):
            return await handler(call)
        return await self._serve(resource, call)(self._means, call)

    async def delete(self, call: Call, options: DeleteOptions) -> None:
        """Delete an object for a part of the server itself, which asks nobody."""
        await delete_object(self._means, call, options, admit=False)

    def _serve(self, resource: str, call: Call) -> _Serve:
        subresource = call.subresource
        if resource == "bindings":
            return bind
        if "get" not in call.served.verbs:
            # Reviews and their like are answered by a handler or by nobody: they are never stored.
            raise no_such_method()
        if not subresource:
            return _VERBS[call.verb]
        if subresource in _CHANGING and call.verb in ("get", "update", "patch"):
            return _VERBS[call.verb]
        if serve := _OF_SUBRESOURCES.get(subresource):
            return serve
        raise no_such_method()
