"""Gets objects for `get`: lists, single objects and watches, printed as tables, names, JSON or YAML.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/get/get.go
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

import click

from pykubelet.api.errors import ApiError, Expired, NotFound, from_status
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, decode_document
from pykubelet.api.times import ages_at
from pykubelet.api.yaml.write import json_text, yaml_text
from pykubelet.cli.actions.resource_args import (
    AmbiguousArguments,
    RequestedResource,
    list_of,
    named,
    objects_in,
    requested_resources,
    without_managed_fields,
)
from pykubelet.cli.actions.session import ApiSession, api_error_text, changes_plan, object_plan
from pykubelet.cli.client_command import print_error
from pykubelet.cli.printers.table import Decoration, Row, align_rows, header, plain_table, rows_of
from pykubelet.cli.printers.terminal import escape_json, escape_terminal
from pykubelet.client.discovery import ServedResource
from pykubelet.client.interface import EVERYTHING, Selection
from pykubelet.client.request import LineSplitter

_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GetScope:
    """A namespace (empty for all) and a selection."""

    namespace: str
    selection: Selection = EVERYTHING


@dataclass(frozen=True, slots=True)
class GetResult:
    """The responses for one kind (tables, objects or lists), and the errors."""

    wanted: RequestedResource
    answers: tuple[Document, ...]
    errors: tuple[ApiError, ...] = ()


async def look_up(session: ApiSession, wanted: RequestedResource, scope: GetScope, *, as_table: bool) -> GetResult:
    """Get the requested objects of one kind; failures are collected in the errors."""
    resource = wanted.served.resource
    answers: list[Document] = []
    errors: list[ApiError] = []
    if not wanted.names:
        try:
            pages = session.pages(resource, scope.namespace, scope.selection, as_table=as_table)
            answers += [page async for page in pages]
        except ApiError as error:
            errors.append(error)
    for name in wanted.names:
        try:
            answers.append(await session.document(object_plan(resource, scope.namespace, name, as_table=as_table)))
        except ApiError as error:
            errors.append(error)
    return GetResult(wanted, tuple(answers), tuple(errors))


async def watch_changes(
    session: ApiSession, resource: Resource, scope: GetScope, resource_version: str, *, as_table: bool
) -> AsyncGenerator[tuple[str, Document], None]:
    """Watch from a resource version: event types and objects, without bookmarks. Raises ApiError."""
    seen = resource_version
    while True:
        plan = changes_plan(resource, scope.namespace, scope.selection, seen, as_table=as_table)
        async with session.client.stream(plan) as chunks:
            splitter = LineSplitter()
            async for chunk in chunks:
                for line in splitter.lines(chunk):
                    event = decode_document(line)
                    kind, document = event["type"], event["object"]
                    if kind == "ERROR":
                        raise from_status(document, int(document.get("code") or Expired.code))
                    seen = _revision(document) or seen
                    if kind != "BOOKMARK":
                        yield kind, document
        # Pause, in case the server ends every stream at once.
        await asyncio.sleep(_PAUSE_SECONDS)


def _revision(document: Document) -> str:
    """The resource version of an object or of the row of a table."""
    own = str((document.get("metadata") or {}).get("resourceVersion", ""))
    for row in document.get("rows") or () if document.get("kind") == "Table" else ():
        own = str(((row.get("object") or {}).get("metadata") or {}).get("resourceVersion", "")) or own
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class GetArguments:
    words: tuple[str, ...]
    all_namespaces: bool = False
    selector: str = ""
    field_selector: str = ""
    output: str = ""
    watch: bool = False
    watch_only: bool = False
    no_headers: bool = False
    show_labels: bool = False
    show_managed_fields: bool = False
    ignore_not_found: bool = False

    @property
    def as_table(self) -> bool:
        return self.output in {"", "wide"}


class TablePrinter:
    """Prints tables one after the other; those of one kind share their columns."""

    def __init__(self, arguments: GetArguments, *, with_kinds: bool) -> None:
        self._arguments, self._with_kinds = arguments, with_kinds
        self._widths: tuple[int, ...] = ()
        self._columns: list[Document] = []
        self._has_header = False
        self.has_printed = False

    def start(self) -> None:
        """Start with objects of another kind."""
        self._widths, self._columns, self._has_header = (), [], False

    def print(self, served: ServedResource, tables: Iterable[Document]) -> None:
        """Print rows; columns are as wide as everything printed so far needs."""
        rows: list[Row] = []
        for table in tables:
            # Only the first event of a watch has column definitions.
            self._columns = table.get("columnDefinitions") or self._columns
            rows += rows_of({**table, "columnDefinitions": self._columns}, self._decoration(served))
        if not rows:
            return
        if not self._has_header and not self._arguments.no_headers:
            rows.insert(0, header({"columnDefinitions": self._columns}, self._decoration(served)))
            if self.has_printed:
                click.echo()
        self._has_header = self.has_printed = True
        lines, self._widths = align_rows(rows, self._widths)
        click.echo("\n".join(lines))

    def _decoration(self, served: ServedResource) -> Decoration:
        return Decoration(
            is_wide=self._arguments.output == "wide",
            namespaces=self._arguments.all_namespaces and served.resource.namespaced,
            labels=self._arguments.show_labels,
            kind=named(served.resource) if self._with_kinds else "",
        )


async def show(session: ApiSession, arguments: GetArguments) -> int:
    """Print the requested objects; returns the exit code."""
    wanted = requested_resources(arguments.words, await session.catalogue())
    has_names = any(one.names for one in wanted)
    if has_names and arguments.all_namespaces:
        raise AmbiguousArguments("a resource cannot be retrieved by name across all namespaces")
    if has_names and arguments.selector:
        raise AmbiguousArguments("selectors and names do not go together")
    selection = Selection(arguments.selector, arguments.field_selector)
    scope = GetScope("" if arguments.all_namespaces else session.namespace, selection)
    if arguments.watch or arguments.watch_only:
        return await _watch(session, arguments, wanted, scope)
    found = [await look_up(session, one, scope, as_table=arguments.as_table) for one in wanted]
    errors = [error for one in found for error in one.errors]
    if arguments.ignore_not_found:
        errors = [error for error in errors if not isinstance(error, NotFound)]
    has_printed = _print_tables(session, arguments, found) if arguments.as_table else _print_objects(arguments, found)
    for error in errors:
        print_error(api_error_text(error))
    if not has_printed and not errors and not arguments.ignore_not_found and arguments.as_table:
        click.echo(_nothing(wanted, scope), err=True)
    return 1 if errors else 0


def _nothing(wanted: tuple[RequestedResource, ...], scope: GetScope) -> str:
    if scope.namespace and all(one.served.resource.namespaced for one in wanted):
        return f"No resources found in {scope.namespace} namespace."
    return "No resources found"


def _print_tables(session: ApiSession, arguments: GetArguments, found: list[GetResult]) -> bool:
    served = {one.wanted.served for one in found}
    printer = TablePrinter(arguments, with_kinds=len(served) > 1)
    last: ServedResource | None = None
    for one in found:
        if one.wanted.served != last:
            printer.start()
        last = one.wanted.served
        printer.print(last, [_as_table(session, answer) for answer in one.answers])
    return printer.has_printed


def _as_table(session: ApiSession, answer: Document) -> Document:
    if answer.get("kind") == "Table":
        return answer
    objects = list(objects_in(answer))
    age = ages_at(session.clock.now())
    return plain_table(objects, [age(one["metadata"].get("creationTimestamp")) for one in objects])


def _print_objects(arguments: GetArguments, found: list[GetResult]) -> bool:
    kinds = [(one.wanted.served, item) for one in found for answer in one.answers for item in objects_in(answer)]
    if arguments.output == "name":
        for served, item in kinds:
            _print_name(served, item)
        return bool(kinds)
    objects = [item for _, item in kinds]
    if not arguments.show_managed_fields:
        objects = [without_managed_fields(item) for item in objects]
    is_one = len(found) == 1 and len(found[0].wanted.names) == 1
    if is_one and not objects:
        return False
    _print_object(arguments, objects[0] if is_one else list_of(objects))
    return True


def _print_object(arguments: GetArguments, document: Document) -> None:
    # YAML has control characters only as escapes.
    click.echo(escape_json(json_text(document)) if arguments.output == "json" else yaml_text(document), nl=False)


def _print_name(served: ServedResource, item: Document) -> None:
    # Names of roles, for instance, may contain any character but a slash.
    click.echo(escape_terminal(f"{named(served.resource)}/{item['metadata']['name']}"))


async def _watch(
    session: ApiSession, arguments: GetArguments, wanted: tuple[RequestedResource, ...], scope: GetScope
) -> int:
    if len(wanted) > 1 or len(wanted[0].names) > 1:
        raise AmbiguousArguments("you may only watch a single resource, or a single type of resources")
    served = wanted[0].served
    if wanted[0].names:
        by_name = f"metadata.name={wanted[0].names[0]}"
        fields = f"{scope.selection.fields},{by_name}" if scope.selection.fields else by_name
        scope = GetScope(scope.namespace, Selection("", fields))
    found = await look_up(session, RequestedResource(served), scope, as_table=arguments.as_table)
    if found.errors:
        raise found.errors[0]
    printer = TablePrinter(arguments, with_kinds=False)
    first = (found.answers[0].get("metadata") or {}).get("resourceVersion", "")
    for answer in () if arguments.watch_only else found.answers:
        _print_change(session, arguments, printer, served, answer)
    async for _, document in watch_changes(session, served.resource, scope, first, as_table=arguments.as_table):
        _print_change(session, arguments, printer, served, document)
    return 0


def _print_change(
    session: ApiSession, arguments: GetArguments, printer: TablePrinter, served: ServedResource, answer: Document
) -> None:
    if arguments.as_table:
        printer.print(served, [_as_table(session, answer)])
        return
    for item in objects_in(answer):
        if arguments.output == "name":
            _print_name(served, item)
        else:
            document = item if arguments.show_managed_fields else without_managed_fields(item)
            click.echo("---\n" if arguments.output == "yaml" else "", nl=False)
            _print_object(arguments, document)
