"""The server without HTTP: routes each ApiRequest to the handler of its verb or subresource.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.errors import ApiError
from pykubelet.apiserver.admission.interfaces import AdmissionPlugin, ValidatePlugin
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
"""Handlers by group resource and subresource, such as `("serviceaccounts", "token")`; the subresource is empty for a kind
that is never stored. A handler runs admission itself.
"""
_VerbHandler = Callable[[RequestScope, ApiRequest], Awaitable[ApiResponse | WatchStream]]

_VERBS: Mapping[str, _VerbHandler] = {
    "get": get,
    "list": list_objects,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}
_OBJECT_SUBRESOURCES = frozenset({"status", "ephemeralcontainers", "resize", "finalize", "approval"})
_SUBRESOURCE_HANDLERS: Mapping[str, _VerbHandler] = {"scale": scale, "binding": bind_pod, "eviction": evict_pod}


class Server:
    """Serves the kinds of a registry from a store.

    The handler chain authorizes requests; `authorize` is asked only where an update turns out to create an object.
    """

    def __init__(
        self,
        *,
        store: Store,
        registry: ServedKinds,
        clock: Clock,
        ids: Ids,
        admission: Sequence[AdmissionPlugin] = (),
        validation: Sequence[ValidatePlugin] = (),
        handlers: Handlers | None = None,
        authorize: Callable[[AuthorizationAttributes], AuthorizationDecision] = allow_all,
    ) -> None:
        self._scope = RequestScope(
            store=store,
            clock=clock,
            ids=ids,
            schemas=TypeConverter(registry),
            admission=tuple(admission),
            validation=tuple(validation),
            authorize=authorize,
        )
        self._handlers = dict(handlers or {})

    async def handle(self, request: ApiRequest) -> ApiResponse | WatchStream:
        """Handles a request; raises ApiError. Responses and errors carry the warnings that were recorded."""
        warnings = request.warnings
        warnings += request.served.deprecation_warnings
        try:
            response = await self._respond(request)
        except ApiError as error:
            error.warnings = tuple(warnings)
            raise
        return replace(response, warnings=tuple(warnings)) if warnings else response

    async def _respond(self, request: ApiRequest) -> ApiResponse | WatchStream:
        resource = request.served.resource.group_resource
        if self._handlers and (handler := self._handlers.get((resource, request.subresource))):
            return await handler(request)
        return await self._handler_of(resource, request)(self._scope, request)

    async def delete(self, request: ApiRequest, options: DeleteOptions) -> None:
        """Deletes an object for a part of the server itself, without admission."""
        await delete_object(self._scope, request, options, admit=False)

    def _handler_of(self, resource: str, request: ApiRequest) -> _VerbHandler:
        subresource = request.subresource
        if resource == "bindings":
            return bind_pod
        if "get" not in request.served.verbs:
            # Reviews and other kinds that are never stored have only a handler of their own.
            raise no_such_method()
        if not subresource or (subresource in _OBJECT_SUBRESOURCES and request.verb in ("get", "update", "patch")):
            return _VERBS[request.verb]
        if handler := _SUBRESOURCE_HANDLERS.get(subresource):
            return handler
        raise no_such_method()
