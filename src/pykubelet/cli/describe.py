"""`pykubelet describe`: describes objects in detail.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/describe/describe.go
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.client_command import epilog, print_error, run_with_session, selection_options, server_options
from pykubelet.cli.completion import kinds_or_names

if TYPE_CHECKING:
    from pykubelet.api.schema import Resource
    from pykubelet.api.serializer import Document
    from pykubelet.cli.actions.session import ApiSession

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
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@selection_options
def describe(
    words: tuple[str, ...],
    *,
    kubeconfig: Path | None,
    namespace: str,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
) -> None:
    """Describe objects in detail: their settings, their state and their events.

    A name that no object has stands for all names with this prefix.
    """

    async def main(session: "ApiSession") -> int:
        from pykubelet.api.errors import ApiError
        from pykubelet.cli.actions.describe import by_name_or_prefix
        from pykubelet.cli.actions.resource_args import requested_resources
        from pykubelet.cli.actions.session import api_error_text
        from pykubelet.client.interface import Selection

        where = "" if all_namespaces else session.namespace
        code, found = 0, list["tuple[Resource, Document]"]()
        for wanted in requested_resources(words, await session.catalogue()):
            resource = wanted.served.resource
            if not wanted.names:
                listed = await session.list(resource, where, Selection(selector, field_selector))
                found += [(resource, one) for one in listed]
            for name in wanted.names:
                try:
                    found += [(resource, one) for one in await by_name_or_prefix(session, resource, where, name)]
                except ApiError as error:
                    print_error(api_error_text(error))
                    code = 1
        await _print(session, found)
        if not found and not code:
            click.echo(f"No resources found in {where} namespace." if where else "No resources found", err=True)
        return code

    run_with_session(main, kubeconfig, namespace)


async def _print(session: "ApiSession", found: "list[tuple[Resource, Document]]") -> None:
    from pykubelet.cli.actions.describe import gather
    from pykubelet.cli.printers.describe.describer import description

    for number, (resource, one) in enumerate(found):
        text = description(await gather(session, resource, one))
        click.echo(("\n\n" if number else "") + text, nl=False)
