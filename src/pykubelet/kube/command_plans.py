"""Requests that only people make: tables, logs, commands in pods, deletes and applies with options.

In: resources, names and options. Out: a `Plan`. No I/O.

Upstream: kubectl/pkg/cmd/{get/get.go,logs/logs.go,exec/exec.go,portforward/portforward.go,apply/apply.go}.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from pykubelet.api import wire
from pykubelet.api.resources import PODS, Resource
from pykubelet.api.wire import Document
from pykubelet.kube.client import PatchType, Selection
from pykubelet.kube.request_plan import JSON, Plan, get_plan, list_plan, object_path, query_text, watch_plan

TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}"
"""A table if the server can make one of these objects, else the objects."""
PAGE = 500
"""So many objects at a time, as kubectl asks for them."""
_WATCH_SECONDS = 3600.0


def object_plan(resource: Resource, namespace: str, name: str, *, as_table: bool) -> Plan:
    """One object."""
    return replace(get_plan(resource, name, namespace, ""), accept=TABLE if as_table else "")


def page_plan(resource: Resource, namespace: str, selection: Selection, continue_token: str, *, as_table: bool) -> Plan:
    """A page of a list."""
    plan = list_plan(resource, namespace, selection, "", PAGE, continue_token)
    return replace(plan, accept=TABLE if as_table else "")


def changes_plan(
    resource: Resource, namespace: str, selection: Selection, resource_version: str, *, as_table: bool
) -> Plan:
    """Changes since a revision."""
    plan = watch_plan(resource, namespace, selection, resource_version, _WATCH_SECONDS)
    return replace(plan, accept=TABLE if as_table else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of a container's log."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: str = ""
    tail: int | None = None
    limit_bytes: int | None = None


def log_plan(namespace: str, pod: str, container: str, options: LogOptions) -> Plan:
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
    return Plan("GET", object_path(PODS, namespace, pod, "log") + query, accept="*/*")


def exec_plan(namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> Plan:
    """A command in a container; a terminal has one output for both."""
    flags = {"container": container, "stdin": _flag(stdin), "stdout": "true", "tty": _flag(tty)}
    flags["stderr"] = _flag(not tty)
    query = [*((name, value) for name, value in flags.items() if value), *(("command", word) for word in command)]
    return Plan("GET", f"{object_path(PODS, namespace, pod, 'exec')}?{urlencode(query)}")


def forward_plan(namespace: str, pod: str) -> Plan:
    """Connections to a pod's ports."""
    return Plan("GET", object_path(PODS, namespace, pod, "portforward"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """How a document is applied."""

    field_manager: str
    force: bool = False
    """Whether fields that others own are taken from them."""
    dry_run: bool = False


def apply_plan(resource: Resource, body: Document, namespace: str, options: ApplyOptions) -> Plan:
    """Server-side apply of the object that the body names."""
    query = query_text(
        fieldManager=options.field_manager,
        # Unlike the others this one is never left out: it says that the question has been thought of.
        force="true" if options.force else "false",
        dryRun="All" if options.dry_run else "",
        fieldValidation="Strict",
    )
    name = str((body.get("metadata") or {}).get("name", ""))
    return Plan("PATCH", object_path(resource, namespace, name) + query, wire.encode(body), PatchType.APPLY.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWish:
    """How an object is deleted."""

    grace_seconds: int | None = None
    """None: the object's own."""
    cascade: str = "Background"
    dry_run: bool = False


def delete_plan(resource: Resource, namespace: str, name: str, wish: DeleteWish) -> Plan:
    """The end of one object."""
    body: Document = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": wish.cascade}
    if wish.grace_seconds is not None:
        body["gracePeriodSeconds"] = wish.grace_seconds
    if wish.dry_run:
        body["dryRun"] = ["All"]
    return Plan("DELETE", object_path(resource, namespace, name), wire.encode(body))


def _flag(is_set: bool) -> str:
    return "true" if is_set else ""


def _number(number: int | None) -> str:
    return "" if number is None else str(number)
