"""A conversation with an API server, for as long as a command takes.

What an API server refuses, in kubectl's words.

Upstream: kubectl/pkg/cmd/util/helpers.go.

Requests that only people make: tables, logs, commands in pods, deletes and applies with options.

In: resources, names and options. Out: a `Plan`. No I/O.

Upstream: kubectl/pkg/cmd/{get/get.go,logs/logs.go,exec/exec.go,portforward/portforward.go,apply/apply.go}.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.api import serializer
from pykubelet.api.errors import ApiError, Invalid, NotReached
from pykubelet.api.schema import PODS, Resource
from pykubelet.api.serializer import Document, decode_document
from pykubelet.app.program import find_rest_config
from pykubelet.client import discovery
from pykubelet.client.discovery import ServedResource
from pykubelet.client.interface import EVERYTHING, PatchType, Selection
from pykubelet.client.request import (
    JSON,
    RestRequest,
    RestResponse,
    discovery_plan,
    get_plan,
    list_plan,
    object_path,
    query_text,
    watch_plan,
)
from pykubelet.client.rest import RestClient

TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}"
"""A table if the server can make one of these objects, else the objects."""
PAGE = 500
"""So many objects at a time, as kubectl asks for them."""
_WATCH_SECONDS = 3600.0
Warn = Callable[[str], None]


def object_plan(resource: Resource, namespace: str, name: str, *, as_table: bool) -> RestRequest:
    """One object."""
    return replace(get_plan(resource, name, namespace, ""), accept=TABLE if as_table else "")


def page_plan(
    resource: Resource, namespace: str, selection: Selection, continue_token: str, *, as_table: bool
) -> RestRequest:
    """A page of a list."""
    plan = list_plan(resource, namespace, selection, "", PAGE, continue_token)
    return replace(plan, accept=TABLE if as_table else "")


def changes_plan(
    resource: Resource, namespace: str, selection: Selection, resource_version: str, *, as_table: bool
) -> RestRequest:
    """Changes since a revision."""
    plan = watch_plan(resource, namespace, selection, resource_version, _WATCH_SECONDS)
    return replace(plan, accept=TABLE if as_table else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequestOptions:
    """Which part of a container's log."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: str = ""
    tail: int | None = None
    limit_bytes: int | None = None


def log_plan(namespace: str, pod: str, container: str, options: LogRequestOptions) -> RestRequest:
    """The log of a container."""
    query = query_text(
        container=container,
        follow=_flag(options.follow),
        previous=_flag(options.previous),
        timestamps=_flag(options.timestamps),
        sinceSeconds=_number(options.since_seconds),
        sinceTime=options.since_time,
        tailLines=_number(options.tail),
        limitBytes=_number(options.limit_bytes),
    )
    return RestRequest("GET", object_path(PODS, namespace, pod, "log") + query, accept="*/*")


def exec_plan(
    namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
) -> RestRequest:
    """A command in a container; a terminal has one output for both."""
    flags = {"container": container, "stdin": _flag(stdin), "stdout": "true", "tty": _flag(tty)}
    flags["stderr"] = _flag(not tty)
    query = [*((name, value) for name, value in flags.items() if value), *(("command", word) for word in command)]
    return RestRequest("GET", f"{object_path(PODS, namespace, pod, 'exec')}?{urlencode(query)}")


def forward_plan(namespace: str, pod: str) -> RestRequest:
    """Connections to a pod's ports."""
    return RestRequest("GET", object_path(PODS, namespace, pod, "portforward"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """How a document is applied."""

    field_manager: str
    force: bool = False
    """Whether fields that others own are taken from them."""
    dry_run: bool = False


def apply_plan(resource: Resource, body: Document, namespace: str, options: ApplyOptions) -> RestRequest:
    """Server-side apply of the object that the body names."""
    query = query_text(
        fieldManager=options.field_manager,
        # Unlike the others this one is never left out: it says that the question has been thought of.
        force="true" if options.force else "false",
        dryRun="All" if options.dry_run else "",
        fieldValidation="Strict",
    )
    name = str((body.get("metadata") or {}).get("name", ""))
    return RestRequest(
        "PATCH", object_path(resource, namespace, name) + query, serializer.encode(body), PatchType.APPLY.value
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionOptions:
    """How an object is deleted."""

    grace_seconds: int | None = None
    """None: the object's own."""
    cascade: str = "Background"
    dry_run: bool = False


def delete_plan(resource: Resource, namespace: str, name: str, wish: DeletionOptions) -> RestRequest:
    """The end of one object."""
    body: Document = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": wish.cascade}
    if wish.grace_seconds is not None:
        body["gracePeriodSeconds"] = wish.grace_seconds
    if wish.dry_run:
        body["dryRun"] = ["All"]
    return RestRequest("DELETE", object_path(resource, namespace, name), serializer.encode(body))


def _flag(is_set: bool) -> str:
    return "true" if is_set else ""


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


@dataclass(frozen=True, slots=True)
class ApiSession:
    """An API server to talk to, the namespace that is meant where none is named, and who hears its warnings."""

    client: RestClient
    namespace: str
    clock: Clock
    warn: Warn

    async def ask(self, plan: RestRequest) -> RestResponse:
        """Any request, and its answer."""
        answer = await self.client.ask(plan)
        for warning in answer.warnings:
            self.warn(warning)
        return answer

    async def document(self, plan: RestRequest) -> Document:
        """The document in the answer to a request."""
        document: Document = decode_document((await self.ask(plan)).body)
        return document

    async def catalogue(self) -> tuple[ServedResource, ...]:
        """All that the server serves."""
        bodies = [(await self.client.ask(discovery_plan(path))).body for path in discovery.PATHS]
        return tuple(served for body in bodies for served in discovery.read_catalogue(body))

    async def get(self, resource: Resource, namespace: str, name: str) -> Document:
        """One object."""
        return await self.document(object_plan(resource, namespace, name, as_table=False))

    async def list(self, resource: Resource, namespace: str = "", selection: Selection = EVERYTHING) -> list[Document]:
        """All objects, each with its kind; an empty namespace means every namespace."""
        found = [page async for page in self.pages(resource, namespace, selection, as_table=False)]
        named = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**named, **item} for page in found for item in page.get("items") or ()]

    async def pages(
        self, resource: Resource, namespace: str, selection: Selection, *, as_table: bool
    ) -> AsyncIterator[Document]:
        """The pages of a list."""
        token = ""
        while True:
            page = await self.document(page_plan(resource, namespace, selection, token, as_table=as_table))
            yield page
            token = (page.get("metadata") or {}).get("continue", "")
            if not token:
                return


@asynccontextmanager
async def open_session(kubeconfig: Path | None, namespace: str, warn: Warn) -> AsyncIterator[ApiSession]:
    """Talk to the server of a kubeconfig; CannotStart without one."""
    clock = SystemClock()
    access = find_rest_config(kubeconfig, clock)
    async with RestClient(access, clock=clock) as client:
        yield ApiSession(client, namespace or access.namespace, clock, warn)


def api_error_text(error: ApiError) -> str:
    """One line, or one more for each of several causes."""
    if isinstance(error, NotReached):
        return f"error: the API server does not answer: {error.message}"
    kind, name = error.details.get("kind"), error.details.get("name", "")
    if isinstance(error, Invalid) and kind and error.causes:
        causes = [f"{cause['field']}: {cause.get('message', '')}" for cause in error.causes if cause.get("field")]
        shown = f" {causes[0]}" if len(causes) == 1 else "".join(f"\n* {cause}" for cause in causes)
        return f'The {kind} "{name}" is invalid:{shown}'
    return f"Error from server ({error.reason}): {error.message}" if error.reason else f"error: {error.message}"
