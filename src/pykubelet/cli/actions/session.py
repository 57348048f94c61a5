"""A session of a client command: the client, the namespace, and the requests of kubectl's commands.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go, staging/src/k8s.io/kubectl/pkg/cmd/get/get.go,
staging/src/k8s.io/kubectl/pkg/cmd/logs/logs.go, staging/src/k8s.io/kubectl/pkg/cmd/exec/exec.go,
staging/src/k8s.io/kubectl/pkg/cmd/apply/apply.go
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
from pykubelet.client import discovery, request
from pykubelet.client.discovery import ServedResource
from pykubelet.client.interface import EVERYTHING, Selection
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
"""Accepts a table, or the objects if the server has no table for them."""
PAGE = 500
"""The number of objects in one page, as in kubectl."""
_WATCH_SECONDS = 3600.0
Warn = Callable[[str], None]


def object_plan(resource: Resource, namespace: str, name: str, *, as_table: bool) -> RestRequest:
    return replace(get_plan(resource, name, namespace, ""), accept=TABLE if as_table else "")


def page_plan(
    resource: Resource, namespace: str, selection: Selection, continue_token: str, *, as_table: bool
) -> RestRequest:
    plan = list_plan(resource, namespace, selection, "", PAGE, continue_token)
    return replace(plan, accept=TABLE if as_table else "")


def changes_plan(
    resource: Resource, namespace: str, selection: Selection, resource_version: str, *, as_table: bool
) -> RestRequest:
    plan = watch_plan(resource, namespace, selection, resource_version, _WATCH_SECONDS)
    return replace(plan, accept=TABLE if as_table else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequestOptions:
    """The part of a container's log to read."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: str = ""
    tail: int | None = None
    limit_bytes: int | None = None


def log_plan(namespace: str, pod: str, container: str, options: LogRequestOptions) -> RestRequest:
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
    """The request for a command in a container; a terminal has one output for both streams."""
    flags = {"container": container, "stdin": _flag(stdin), "stdout": "true", "tty": _flag(tty)}
    flags["stderr"] = _flag(not tty)
    query = [*((name, value) for name, value in flags.items() if value), *(("command", word) for word in command)]
    return RestRequest("GET", f"{object_path(PODS, namespace, pod, 'exec')}?{urlencode(query)}")


def forward_plan(namespace: str, pod: str) -> RestRequest:
    """The request for connections to a pod's ports."""
    return RestRequest("GET", object_path(PODS, namespace, pod, "portforward"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    field_manager: str
    force: bool = False
    """Whether to take over fields of other managers."""
    dry_run: bool = False


def apply_plan(resource: Resource, body: Document, namespace: str, options: ApplyOptions) -> RestRequest:
    """The request for a server-side apply of the object in the body."""
    return request.apply_plan(
        resource, body, namespace, options.field_manager, force=options.force, dry_run=options.dry_run
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionOptions:
    grace_seconds: int | None = None
    """None: the object's own grace period."""
    cascade: str = "Background"
    dry_run: bool = False


def delete_plan(resource: Resource, namespace: str, name: str, options: DeletionOptions) -> RestRequest:
    body: Document = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": options.cascade}
    if options.grace_seconds is not None:
        body["gracePeriodSeconds"] = options.grace_seconds
    if options.dry_run:
        body["dryRun"] = ["All"]
    return RestRequest("DELETE", object_path(resource, namespace, name), serializer.encode(body))


def _flag(is_set: bool) -> str:
    return "true" if is_set else ""


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


@dataclass(frozen=True, slots=True)
class ApiSession:
    """A client with the default namespace and a receiver of the server's warnings."""

    client: RestClient
    namespace: str
    clock: Clock
    warn: Warn

    async def ask(self, plan: RestRequest) -> RestResponse:
        """Send a request and return its response."""
        answer = await self.client.ask(plan)
        for warning in answer.warnings:
            self.warn(warning)
        return answer

    async def document(self, plan: RestRequest) -> Document:
        """Send a request and decode its response."""
        document: Document = decode_document((await self.ask(plan)).body)
        return document

    async def catalogue(self) -> tuple[ServedResource, ...]:
        """Every resource that the server serves."""
        bodies = [(await self.client.ask(discovery_plan(path))).body for path in discovery.PATHS]
        return tuple(served for body in bodies for served in discovery.read_catalogue(body))

    async def get(self, resource: Resource, namespace: str, name: str) -> Document:
        return await self.document(object_plan(resource, namespace, name, as_table=False))

    async def list(self, resource: Resource, namespace: str = "", selection: Selection = EVERYTHING) -> list[Document]:
        """List all objects, each with its kind; an empty namespace means all."""
        found = [page async for page in self.pages(resource, namespace, selection, as_table=False)]
        named = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**named, **item} for page in found for item in page.get("items") or ()]

    async def pages(
        self, resource: Resource, namespace: str, selection: Selection, *, as_table: bool
    ) -> AsyncIterator[Document]:
        token = ""
        while True:
            page = await self.document(page_plan(resource, namespace, selection, token, as_table=as_table))
            yield page
            token = (page.get("metadata") or {}).get("continue", "")
            if not token:
                return


@asynccontextmanager
async def open_session(kubeconfig: Path | None, namespace: str, warn: Warn) -> AsyncIterator[ApiSession]:
    """Open a session with the server of a kubeconfig; CannotStart without one."""
    clock = SystemClock()
    access = find_rest_config(kubeconfig, clock)
    async with RestClient(access, clock=clock) as client:
        yield ApiSession(client, namespace or access.namespace, clock, warn)


def api_error_text(error: ApiError) -> str:
    """The error message in kubectl's words; one line per cause if there are several."""
    if isinstance(error, NotReached):
        return f"error: the API server does not answer: {error.message}"
    kind, name = error.details.get("kind"), error.details.get("name", "")
    if isinstance(error, Invalid) and kind and error.causes:
        causes = [f"{cause['field']}: {cause.get('message', '')}" for cause in error.causes if cause.get("field")]
        shown = f" {causes[0]}" if len(causes) == 1 else "".join(f"\n* {cause}" for cause in causes)
        return f'The {kind} "{name}" is invalid:{shown}'
    return f"Error from server ({error.reason}): {error.message}" if error.reason else f"error: {error.message}"
