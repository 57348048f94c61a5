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
from pykubelet.apiserver.admission.interfaces import AdmissionPlugin
from pykubelet.apiserver.errors import no_such_method
from pykubelet.apiserver.fieldmanager.typeconverter import TypeConverter
from pykubelet.apiserver.handlers.binding import bind_pod
from pykubelet.apiserver.handlers.create import create
from pykubelet.apiserver.handlers.delete import DeleteOptions, delete, delete_collection, delete_object
from pykubelet.apiserver.handlers.eviction import evict_pod
from pykubelet.apiserver.handlers.get import get, list_objects
from pykubelet.apiserver.handlers.patch import patch
from pykubelet.apiserver.handlers.scale import scale
from pykubelet.apiserver.handlers.update import update
from pykubelet.apiserver.handlers.watch import watch
from pykubelet.apiserver.handlers.write import RequestScope, allow_all
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.request import (
    ApiRequest,
    ApiResponse,
    AuthorizationAttributes,
    AuthorizationDecision,
    WatchStream,
)
from pykubelet.apiserver.storage.interfaces import Store

Handler = Callable[[ApiRequest], Awaitable[ApiResponse]]
Handlers = Mapping[tuple[str, str], Handler]
"""By group resource and subresource: `("serviceaccounts", "token")`; the subresource is empty for a kind of its own.

A handler asks admission itself, if that has a say."""
_Serve = Callable[[RequestScope, ApiRequest], Awaitable[ApiResponse | WatchStream]]

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
_OF_SUBRESOURCES: Mapping[str, _Serve] = {"scale": scale, "binding": bind_pod, "eviction": evict_pod}


class Server:
    """Serves the kinds of a registry out of a store.

    Who may send a call is decided before; `authorize` is asked only where a change turns out to be a creation.
    """

    def __init__(
        self,
        *,
        store: Store,
        registry: ServedKinds,
        clock: Clock,
        ids: Ids,
        admission: Sequence[AdmissionPlugin] = (),
        handlers: Handlers | None = None,
        authorize: Callable[[AuthorizationAttributes], AuthorizationDecision] = allow_all,
    ) -> None:
        self._means = RequestScope(
            store=store,
            clock=clock,
            ids=ids,
            schemas=TypeConverter(registry),
            admission=tuple(admission),
            authorize=authorize,
        )
        self._handlers = dict(handlers or {})

    async def handle(self, call: ApiRequest) -> ApiResponse | WatchStream:
        """Do what is asked; ApiError if it cannot or must not be done. All of these carry the warnings."""
        told = call.warnings
        told += call.served.deprecation_warnings
        try:
            answer = await self._answered(call)
        except ApiError as error:
            error.warnings = tuple(told)
            raise
        return replace(answer, warnings=tuple(told)) if told else answer

    async def _answered(self, call: ApiRequest) -> ApiResponse | WatchStream:
        resource = call.served.resource.group_resource
        if self._handlers and (handler := self._handlers.get((resource, call.subresource))):
            return await handler(call)
        return await self._serve(resource, call)(self._means, call)

    async def delete(self, call: ApiRequest, options: DeleteOptions) -> None:
        """Delete an object for a part of the server itself, which asks nobody."""
        await delete_object(self._means, call, options, admit=False)

    def _serve(self, resource: str, call: ApiRequest) -> _Serve:
        subresource = call.subresource
        if resource == "bindings":
            return bind_pod
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
