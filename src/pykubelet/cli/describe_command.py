"""`pykubelet describe`: all about objects, for people."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.completing import kinds_or_names
from pykubelet.cli.options import selection_options, server_options
from pykubelet.cli.talking import complain, epilog, talk

if TYPE_CHECKING:
    from pykubelet.api.resources import Resource
    from pykubelet.api.wire import Document
    from pykubelet.app.commands.session import Session

_EXAMPLES = epilog(
    "pykubelet describe pod web",
    "pykubelet describe deploy/web svc/web",
    "pykubelet describe pods -l app=web -n shop",
    "pykubelet describe node",
)


@click.command("describe", epilog=_EXAMPLES)
@click.argument(
    "words", nargs=-1, required=True, metavar="TYPE [NAME|PREFIX...] | TYPE/NAME...", shell_complete=kinds_or_names
)
@server_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@selection_options
def describe_command(
    words: tuple[str, ...],
    *,
    kubeconfig: Path | None,
    namespace: str,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
) -> None:
    """Tell all about objects: what they are, how they are, and what happened to them.

    A name that nothing has stands for all names that begin with it.
    """

    async def main(session: "Session") -> int:
        from pykubelet.api.errors import ApiError
        from pykubelet.app.commands.describing import named_or_alike
        from pykubelet.cli.failure_words import failure_words
        from pykubelet.kube.client import Selection
        from pykubelet.kube.resource_names import wanted_of

        where = "" if all_namespaces else session.namespace
        code, found = 0, list["tuple[Resource, Document]"]()
        for wanted in wanted_of(words, await session.catalogue()):
            resource = wanted.served.resource
            if not wanted.names:
                listed = await session.list(resource, where, Selection(selector, field_selector))
                found += [(resource, one) for one in listed]
            for name in wanted.names:
                try:
                    found += [(resource, one) for one in await named_or_alike(session, resource, where, name)]
                except ApiError as error:
                    complain(failure_words(error))
                    code = 1
        await _tell(session, found)
        if not found and not code:
            click.echo(f"No resources found in {where} namespace." if where else "No resources found", err=True)
        return code

    talk(main, kubeconfig, namespace)


async def _tell(session: "Session", found: "list[tuple[Resource, Document]]") -> None:
    from pykubelet.app.commands.describing import gather
    from pykubelet.cli.describe.kinds import description
    from pykubelet.cli.describe.subject import Subject

    for number, (resource, one) in enumerate(found):
        known = await gather(session, resource, one)
        subject = Subject(object=one, events=known.events, related=known.related, now=session.clock.now())
        click.echo(("\n\n" if number else "") + description(subject), nl=False)
