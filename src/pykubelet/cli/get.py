"""`pykubelet get`: objects of any kind, as tables, names, JSON or YAML."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykubelet.cli.client_command import OutputFormat, epilog, run_with_session, selection_options, server_options
from pykubelet.cli.completion import kinds_or_names

if TYPE_CHECKING:
    from pykubelet.cli.actions.session import ApiSession

_EXAMPLES = epilog(
    "pykubelet get pods",
    "pykubelet get pods,svc -n shop -o wide",
    "pykubelet get deploy/web -o yaml",
    "pykubelet get all -A -l app=web",
    "pykubelet get pods -w",
)


@click.command(epilog=_EXAMPLES)
@click.argument(
    "words", nargs=-1, required=True, metavar="TYPE[,TYPE...] [NAME...] | TYPE/NAME...", shell_complete=kinds_or_names
)
@server_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace.")
@selection_options
@click.option(
    "-o",
    "--output",
    default="",
    type=OutputFormat(["", "json", "name", "wide", "yaml"]),
    help="The form.",
    metavar="json|name|wide|yaml",
)
@click.option("-w", "--watch", is_flag=True, help="Go on and show every change.")
@click.option("--watch-only", is_flag=True, help="Show changes, not what is there now.")
@click.option("--no-headers", is_flag=True, help="Without the line above a table.")
@click.option("--show-labels", is_flag=True, help="With a column of labels.")
@click.option("--show-managed-fields", is_flag=True, help="With metadata.managedFields in JSON and YAML.")
@click.option("--ignore-not-found", is_flag=True, help="Exit code 0 if it is not there.")
def get(kubeconfig: Path | None, namespace: str, **options: Any) -> None:
    """List the objects of a type, or show some by their names.

    Types are named as the server names them: pods, pod or po; deployments.apps; all; and those of custom resources.
    """

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.get import GetArguments, show

        return await show(session, GetArguments(**options))

    run_with_session(main, kubeconfig, namespace)
