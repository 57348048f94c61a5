"""Deletes objects for `delete`, waits until they are gone, and prints what happened.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/delete/delete.go
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace

import click

from pykubelet.api.errors import ApiError, Gone, NotFound
from pykubelet.api.schema import Resource
from pykubelet.cli.actions.get import GetScope, watch_changes
from pykubelet.cli.actions.resource_args import AmbiguousArguments, named, requested_resources, served_kind
from pykubelet.cli.actions.session import ApiSession, DeletionOptions, api_error_text, delete_plan
from pykubelet.cli.apply import read_items
from pykubelet.cli.client_command import print_error
from pykubelet.cli.printers.terminal import escape_terminal
from pykubelet.client.discovery import ServedResource
from pykubelet.client.interface import Selection

_FORCE_WARNING = (
    "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. "
    "The resource may continue to run on the cluster indefinitely."
)
_LONG_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class DeletionTarget:
    """An object to delete; `uid` is set once it is being deleted."""

    resource: Resource
    namespace: str
    name: str
    uid: str = ""


def deletion_target(resource: Resource, namespace: str, name: str) -> DeletionTarget:
    """The target of a name; cluster-scoped objects have no namespace."""
    return DeletionTarget(resource, namespace if resource.namespaced else "", name)


async def targets_of(session: ApiSession, resources: Sequence[ServedResource], scope: GetScope) -> list[DeletionTarget]:
    """The objects of a selection."""
    found = []
    for served in resources:
        for document in await session.list(served.resource, scope.namespace, scope.selection):
            metadata = document["metadata"]
            found.append(DeletionTarget(served.resource, metadata.get("namespace", ""), metadata["name"]))
    return found


async def delete(session: ApiSession, one: DeletionTarget, options: DeletionOptions) -> DeletionTarget:
    """Delete an object; returns the target with the UID of the deleted object."""
    answer = await session.document(delete_plan(one.resource, one.namespace, one.name, options))
    # The response is the object as it is now, or a Status if it is already gone.
    details = answer.get("details") if answer.get("kind") == "Status" else answer.get("metadata")
    return replace(one, uid=str((details or {}).get("uid", "")))


async def until_gone(session: ApiSession, one: DeletionTarget) -> None:
    """Wait until the object is gone or its name belongs to another object."""
    while True:
        try:
            found = await session.get(one.resource, one.namespace, one.name)
        except NotFound:
            return
        metadata = found["metadata"]
        if one.uid and metadata["uid"] != one.uid:
            return
        by_name = GetScope(one.namespace, Selection(fields=f"metadata.name={one.name}"))
        changes = watch_changes(session, one.resource, by_name, metadata["resourceVersion"], as_table=False)
        # Its resource version may expire while waiting; then it is read again.
        with suppress(Gone):
            async with aclosing(changes) as news:
                async for kind, document in news:
                    if kind == "DELETED" or document["metadata"]["uid"] != metadata["uid"]:
                        return


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteArguments:
    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    recursive: bool = False
    all_namespaces: bool = False
    selector: str = ""
    field_selector: str = ""
    everything: bool = False
    grace_period: int = -1
    now: bool = False
    force: bool = False
    wait: bool = True
    timeout_seconds: float = 0.0
    cascade: str = "background"
    ignore_not_found: bool = False
    dry_run: str = "none"
    output: str = ""

    @property
    def deletion_options(self) -> DeletionOptions:
        """The deletion options. Without --force a grace period of 0 becomes 1, as in kubectl."""
        grace = 1 if self.now else self.grace_period
        if self.force and grace < 0:
            grace = 0
        if grace == 0 and not self.force:
            grace = 1
        seconds = None if grace < 0 else grace
        return DeletionOptions(
            grace_seconds=seconds, cascade=self.cascade.capitalize(), dry_run=self.dry_run == "server"
        )


async def delete_all(session: ApiSession, arguments: DeleteArguments) -> int:
    """Delete the requested objects; returns the exit code."""
    targets, is_good = await _targets(session, arguments)
    if arguments.force and targets:
        click.echo(_FORCE_WARNING, err=True)
    if not targets and is_good and not arguments.ignore_not_found:
        click.echo("No resources found", err=True)
    ending: list[DeletionTarget] = []
    for one in targets:
        try:
            ending.append(await delete(session, one, arguments.deletion_options))
        except ApiError as error:
            if not (isinstance(error, NotFound) and arguments.ignore_not_found):
                print_error(api_error_text(error))
                is_good = False
            continue
        click.echo(escape_terminal(_done(arguments, one)))
    if arguments.wait and arguments.dry_run == "none":
        is_good &= await _wait(session, arguments, ending)
    return 0 if is_good else 1


async def _targets(session: ApiSession, arguments: DeleteArguments) -> tuple[list[DeletionTarget], bool]:
    """The objects to delete, and whether all arguments were valid."""
    catalogue = await session.catalogue()
    if arguments.names:
        return _in_manifests(arguments, catalogue, session.namespace)
    wanted = requested_resources(arguments.words, catalogue)
    is_chosen = bool(arguments.selector or arguments.field_selector or arguments.everything)
    if any(one.names for one in wanted):
        if is_chosen or arguments.all_namespaces:
            raise AmbiguousArguments("names do not go together with selectors, --all or --all-namespaces")
        return [
            deletion_target(one.served.resource, session.namespace, name) for one in wanted for name in one.names
        ], True
    if not is_chosen:
        raise AmbiguousArguments("no name was given; say which ones by name, --selector or --all")
    selection = Selection(arguments.selector, arguments.field_selector)
    scope = GetScope("" if arguments.all_namespaces else session.namespace, selection)
    return await targets_of(session, [one.served for one in wanted], scope), True


def _in_manifests(
    arguments: DeleteArguments, catalogue: Sequence[ServedResource], namespace: str
) -> tuple[list[DeletionTarget], bool]:
    items, is_good = read_items(arguments.names, recursive=arguments.recursive)
    found = []
    for item in items:
        metadata = item.document.get("metadata") or {}
        served = served_kind(item.api_version, item.kind, catalogue)
        if served is None or not metadata.get("name"):
            print_error(str(item.problem("kind", f"the server has no such object of kind {item.kind}")))
            is_good = False
        else:
            found.append(deletion_target(served.resource, metadata.get("namespace") or namespace, metadata["name"]))
    return found, is_good


def _done(arguments: DeleteArguments, one: DeletionTarget) -> str:
    kind = named(one.resource)
    if arguments.output == "name":
        return f"{kind}/{one.name}"
    how = "force deleted" if arguments.force else "deleted"
    where = f" from {one.namespace} namespace" if one.namespace else ""
    return f'{kind} "{one.name}" {how}{where}' + (" (server dry run)" if arguments.dry_run == "server" else "")


async def _wait(session: ApiSession, arguments: DeleteArguments, targets: list[DeletionTarget]) -> bool:
    try:
        async with asyncio.timeout(arguments.timeout_seconds or _LONG_SECONDS):
            for number, one in enumerate(targets):
                with _progress_line(f"waiting for {len(targets) - number} to go: {named(one.resource)}/{one.name}"):
                    await until_gone(session, one)
    except TimeoutError:
        print_error(f"error: timed out waiting for the condition on {one.resource.plural}/{one.name}")
        return False
    return True


@contextmanager
def _progress_line(what: str) -> Iterator[None]:
    """A line that is shown only while waiting, and only on a terminal."""
    is_shown = sys.stderr.isatty()
    if is_shown:
        click.echo(f"\r\x1b[2K{escape_terminal(what)}", nl=False, err=True)
    try:
        yield
    finally:
        if is_shown:
            click.echo("\r\x1b[2K", nl=False, err=True)
