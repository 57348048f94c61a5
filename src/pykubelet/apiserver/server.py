"""The server without HTTP: routes each ApiRequest to the handler of its verb or subresource.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from pykubelet.aio.clock import Clock, StoppedClock
from pykubelet.aio.ids import Ids, OneUid
from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionPlugin
from pykubelet.apiserver.admission.plugin.dynamic import DynamicAdmission
from pykubelet.apiserver.admission.plugin.webhook.reviews import reviewed
from pykubelet.apiserver.errors import no_such_method
from pykubelet.apiserver.fieldmanager.typeconverter import TypeConverter
from pykubelet.apiserver.handlers.binding import bind_pod
from pykubelet.apiserver.handlers.create import create
from pykubelet.apiserver.handlers.delete import DeleteOptions, delete, delete_collection, delete_object
from pykubelet.apiserver.handlers.eviction import evict_pod
from pykubelet.apiserver.handlers.get import get, list_objects
from pykubelet.apiserver.handlers.options import WriteOptions
from pykubelet.apiserver.handlers.patch import patch
from pykubelet.apiserver.handlers.scale import scale
from pykubelet.apiserver.handlers.update import update
from pykubelet.apiserver.handlers.watch import watch
from pykubelet.apiserver.handlers.write import RequestScope, WriteRequest, allow_all
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
_READS = frozenset({"get", "list", "watch"})
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
        handlers: Handlers | None = None,
        dynamic: DynamicAdmission = DynamicAdmission(),  # noqa: B008  it is frozen
        authorize: Callable[[AuthorizationAttributes], AuthorizationDecision] = allow_all,
    ) -> None:
        self._dynamic = dynamic
        self._scope = RequestScope(
            store=store,
            clock=clock,
            ids=ids,
            schemas=TypeConverter(registry),
            admission=tuple(admission),
            validation=tuple(dynamic.validation),
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
        return await self._handler_of(resource, request)(self._scope_of(request), request)

    def _scope_of(self, request: ApiRequest, *, connects: bool = False) -> RequestScope:
        """The scope of a request; with webhooks, time and UID stand still, so that a write may be decided repeatedly."""
        scope = self._scope
        if (request.verb in _READS and not connects) or (reviews := self._dynamic.reviews()) is None:
            return scope
        return replace(scope, clock=StoppedClock(scope.clock), ids=OneUid(scope.ids), reviews=reviews)

    async def handle_itself(self, request: ApiRequest) -> ApiResponse | WatchStream:
        """Handles a request of the server for its own objects, without webhooks and policies, which could keep it from starting."""
        scope = replace(self._scope, validation=())
        return await self._handler_of(request.served.resource.group_resource, request)(scope, request)

    async def admit_connection(self, request: ApiRequest, options: Document) -> None:
        """Has webhooks and policies look at an exec, attach, port-forward or proxy; raises ApiError."""
        # The server's own admission is about objects.
        scope = replace(self._scope_of(request, connects=True), admission=())
        write = WriteRequest(scope, request, WriteOptions(), lambda: None)

        async def admitted() -> None:
            new = write.admit("connect", request.name, options, None)
            write.validate("connect", request.name, new, None)

        await reviewed(admitted)

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
