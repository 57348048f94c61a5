"""Deletes what `delete` was asked for, and says so."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.app.commands.deleting import Target, delete, target, targets_of, until_gone
from pykubelet.app.commands.getting import Scope
from pykubelet.app.commands.session import Session
from pykubelet.cli.apply import read_items
from pykubelet.cli.failure_words import failure_words
from pykubelet.cli.object_forms import named
from pykubelet.cli.talking import complain
from pykubelet.kube.client import Selection
from pykubelet.kube.command_plans import DeleteWish
from pykubelet.kube.discovery import Served
from pykubelet.kube.resource_names import UnclearNames, served_kind, wanted_of

_FORCE_WARNING = (
    "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. "
    "The resource may continue to run on the cluster indefinitely."
)
_LONG_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `delete`."""

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
    def wish(self) -> DeleteWish:
        """Without --force nothing ends at once: a 0 is taken for a 1, as kubectl does."""
        grace = 1 if self.now else self.grace_period
        if self.force and grace < 0:
            grace = 0
        if grace == 0 and not self.force:
            grace = 1
        seconds = None if grace < 0 else grace
        return DeleteWish(grace_seconds=seconds, cascade=self.cascade.capitalize(), dry_run=self.dry_run == "server")


async def delete_all(session: Session, asked: Asked) -> int:
    """Delete it; the exit code."""
    targets, is_good = await _targets(session, asked)
    if asked.force and targets:
        click.echo(_FORCE_WARNING, err=True)
    if not targets and is_good and not asked.ignore_not_found:
        click.echo("No resources found", err=True)
    ending: list[Target] = []
    for one in targets:
        try:
            ending.append(await delete(session, one, asked.wish))
        except ApiError as error:
            if not (isinstance(error, NotFound) and asked.ignore_not_found):
                complain(failure_words(error))
                is_good = False
            continue
        click.echo(_done(asked, one))
    if asked.wait and asked.dry_run == "none":
        is_good &= await _wait(session, asked, ending)
    return 0 if is_good else 1


async def _targets(session: Session, asked: Asked) -> tuple[list[Target], bool]:
    """What is to be deleted, and whether all that was named could be understood."""
    catalogue = await session.catalogue()
    if asked.names:
        return _in_manifests(asked, catalogue, session.namespace)
    wanted = wanted_of(asked.words, catalogue)
    is_chosen = bool(asked.selector or asked.field_selector or asked.everything)
    if any(one.names for one in wanted):
        if is_chosen or asked.all_namespaces:
            raise UnclearNames("names do not go together with selectors, --all or --all-namespaces")
        return [target(one.served.resource, session.namespace, name) for one in wanted for name in one.names], True
    if not is_chosen:
        raise UnclearNames("no name was given; say which ones by name, --selector or --all")
    selection = Selection(asked.selector, asked.field_selector)
    scope = Scope("" if asked.all_namespaces else session.namespace, selection)
    return await targets_of(session, [one.served for one in wanted], scope), True


def _in_manifests(asked: Asked, catalogue: Sequence[Served], namespace: str) -> tuple[list[Target], bool]:
    items, is_good = read_items(asked.names, recursive=asked.recursive)
    found = []
    for item in items:
        metadata = item.document.get("metadata") or {}
        served = served_kind(item.api_version, item.kind, catalogue)
        if served is None or not metadata.get("name"):
            complain(str(item.problem("kind", f"the server has no such object of kind {item.kind}")))
            is_good = False
        else:
            found.append(target(served.resource, metadata.get("namespace") or namespace, metadata["name"]))
    return found, is_good


def _done(asked: Asked, one: Target) -> str:
    kind = named(one.resource)
    if asked.output == "name":
        return f"{kind}/{one.name}"
    how = "force deleted" if asked.force else "deleted"
    where = f" from {one.namespace} namespace" if one.namespace else ""
    return f'{kind} "{one.name}" {how}{where}' + (" (server dry run)" if asked.dry_run == "server" else "")


async def _wait(session: Session, asked: Asked, targets: list[Target]) -> bool:
    try:
        async with asyncio.timeout(asked.timeout_seconds or _LONG_SECONDS):
            for number, one in enumerate(targets):
                with _told(f"waiting for {len(targets) - number} to go: {named(one.resource)}/{one.name}"):
                    await until_gone(session, one)
    except TimeoutError:
        complain(f"error: timed out waiting for the condition on {one.resource.plural}/{one.name}")
        return False
    return True


@contextmanager
def _told(what: str) -> Iterator[None]:
    """A line that is there only while something is waited for, and only for people."""
    is_shown = sys.stderr.isatty()
    if is_shown:
        click.echo(f"\r\x1b[2K{what}", nl=False, err=True)
    try:
        yield
    finally:
        if is_shown:
            click.echo("\r\x1b[2K", nl=False, err=True)
