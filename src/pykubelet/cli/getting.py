"""Shows what `get` was asked for."""

from collections.abc import Iterable
from dataclasses import dataclass

import click

from pykubelet.api.ages import ages_at
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.go_text import json_text, yaml_text
from pykubelet.api.wire import Document
from pykubelet.app.commands.getting import Findings, Scope, follow, look_up
from pykubelet.app.commands.session import Session
from pykubelet.cli.failure_words import failure_words
from pykubelet.cli.object_forms import list_of, named, objects_in, without_managed_fields
from pykubelet.cli.table_layout import Decoration, Row, header, laid_out, plain_table, rows_of
from pykubelet.cli.talking import complain
from pykubelet.kube.client import Selection
from pykubelet.kube.discovery import Served
from pykubelet.kube.resource_names import UnclearNames, Wanted, wanted_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `get`."""

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
    """Prints tables below each other, with the same columns as long as they are of one kind."""

    def __init__(self, asked: Asked, *, with_kinds: bool) -> None:
        self._asked, self._with_kinds = asked, with_kinds
        self._widths: tuple[int, ...] = ()
        self._columns: list[Document] = []
        self._has_header = False
        self.has_printed = False

    def start(self) -> None:
        """Begin with objects of another kind."""
        self._widths, self._columns, self._has_header = (), [], False

    def print(self, served: Served, tables: Iterable[Document]) -> None:
        """Add rows; columns are as wide as all that was printed needs."""
        rows: list[Row] = []
        for table in tables:
            # Only the first change of a watch names its columns.
            self._columns = table.get("columnDefinitions") or self._columns
            rows += rows_of({**table, "columnDefinitions": self._columns}, self._decoration(served))
        if not rows:
            return
        if not self._has_header and not self._asked.no_headers:
            rows.insert(0, header({"columnDefinitions": self._columns}, self._decoration(served)))
            if self.has_printed:
                click.echo()
        self._has_header = self.has_printed = True
        lines, self._widths = laid_out(rows, self._widths)
        click.echo("\n".join(lines))

    def _decoration(self, served: Served) -> Decoration:
        return Decoration(
            is_wide=self._asked.output == "wide",
            namespaces=self._asked.all_namespaces and served.resource.namespaced,
            labels=self._asked.show_labels,
            kind=named(served.resource) if self._with_kinds else "",
        )


async def show(session: Session, asked: Asked) -> int:
    """Print it; the exit code."""
    wanted = wanted_of(asked.words, await session.catalogue())
    has_names = any(one.names for one in wanted)
    if has_names and asked.all_namespaces:
        raise UnclearNames("a resource cannot be retrieved by name across all namespaces")
    if has_names and asked.selector:
        raise UnclearNames("selectors and names do not go together")
    selection = Selection(asked.selector, asked.field_selector)
    scope = Scope("" if asked.all_namespaces else session.namespace, selection)
    if asked.watch or asked.watch_only:
        return await _watch(session, asked, wanted, scope)
    found = [await look_up(session, one, scope, as_table=asked.as_table) for one in wanted]
    errors = [error for one in found for error in one.errors]
    if asked.ignore_not_found:
        errors = [error for error in errors if not isinstance(error, NotFound)]
    has_printed = _print_tables(session, asked, found) if asked.as_table else _print_objects(asked, found)
    _complain(errors)
    if not has_printed and not errors and not asked.ignore_not_found and asked.as_table:
        click.echo(_nothing(wanted, scope), err=True)
    return 1 if errors else 0


def _nothing(wanted: tuple[Wanted, ...], scope: Scope) -> str:
    if scope.namespace and all(one.served.resource.namespaced for one in wanted):
        return f"No resources found in {scope.namespace} namespace."
    return "No resources found"


def _complain(errors: Iterable[ApiError]) -> None:
    for error in errors:
        complain(failure_words(error))


def _print_tables(session: Session, asked: Asked, found: list[Findings]) -> bool:
    served = {one.wanted.served for one in found}
    printer = TablePrinter(asked, with_kinds=len(served) > 1)
    last: Served | None = None
    for one in found:
        if one.wanted.served != last:
            printer.start()
        last = one.wanted.served
        printer.print(last, [_as_table(session, answer) for answer in one.answers])
    return printer.has_printed


def _as_table(session: Session, answer: Document) -> Document:
    if answer.get("kind") == "Table":
        return answer
    objects = list(objects_in(answer))
    age = ages_at(session.clock.now())
    return plain_table(objects, [age(one["metadata"].get("creationTimestamp")) for one in objects])


def _print_objects(asked: Asked, found: list[Findings]) -> bool:
    objects = [item for one in found for answer in one.answers for item in objects_in(answer)]
    if asked.output == "name":
        for one in found:
            for answer in one.answers:
                for item in objects_in(answer):
                    click.echo(f"{named(one.wanted.served.resource)}/{item['metadata']['name']}")
        return bool(objects)
    if not asked.show_managed_fields:
        objects = [without_managed_fields(item) for item in objects]
    is_one = len(found) == 1 and len(found[0].wanted.names) == 1
    if is_one and not objects:
        return False
    _print_object(asked, objects[0] if is_one else list_of(objects))
    return True


def _print_object(asked: Asked, document: Document) -> None:
    click.echo((json_text if asked.output == "json" else yaml_text)(document), nl=False)


async def _watch(session: Session, asked: Asked, wanted: tuple[Wanted, ...], scope: Scope) -> int:
    if len(wanted) > 1 or len(wanted[0].names) > 1:
        raise UnclearNames("you may only watch a single resource, or a single type of resources")
    served = wanted[0].served
    if wanted[0].names:
        by_name = f"metadata.name={wanted[0].names[0]}"
        fields = f"{scope.selection.fields},{by_name}" if scope.selection.fields else by_name
        scope = Scope(scope.namespace, Selection("", fields))
    found = await look_up(session, Wanted(served), scope, as_table=asked.as_table)
    if found.errors:
        raise found.errors[0]
    printer = TablePrinter(asked, with_kinds=False)
    first = (found.answers[0].get("metadata") or {}).get("resourceVersion", "")
    for answer in () if asked.watch_only else found.answers:
        _print_change(session, asked, printer, served, answer)
    async for _, document in follow(session, served.resource, scope, first, as_table=asked.as_table):
        _print_change(session, asked, printer, served, document)
    return 0


def _print_change(session: Session, asked: Asked, printer: TablePrinter, served: Served, answer: Document) -> None:
    if asked.as_table:
        printer.print(served, [_as_table(session, answer)])
        return
    for item in objects_in(answer):
        if asked.output == "name":
            click.echo(f"{named(served.resource)}/{item['metadata']['name']}")
        else:
            document = item if asked.show_managed_fields else without_managed_fields(item)
            click.echo("---\n" if asked.output == "yaml" else "", nl=False)
            _print_object(asked, document)
