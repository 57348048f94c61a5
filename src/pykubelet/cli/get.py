"""`pykubelet get`: lists objects of any kind as tables, names, JSON or YAML.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/get/get.go
"""

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
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@selection_options
@click.option(
    "-o",
    "--output",
    default="",
    type=OutputFormat(["", "json", "name", "wide", "yaml"]),
    help="Output format.",
    metavar="json|name|wide|yaml",
)
@click.option("-w", "--watch", is_flag=True, help="Watch for changes after listing.")
@click.option("--watch-only", is_flag=True, help="Watch for changes without listing first.")
@click.option("--no-headers", is_flag=True, help="Omit the header of tables.")
@click.option("--show-labels", is_flag=True, help="Add a column of labels.")
@click.option("--show-managed-fields", is_flag=True, help="Keep metadata.managedFields in JSON and YAML.")
@click.option("--ignore-not-found", is_flag=True, help="Exit with code 0 if an object does not exist.")
def get(kubeconfig: Path | None, namespace: str, **options: Any) -> None:
    """List the objects of a type, or show objects by name.

    Types are written as the server knows them: pods, pod or po; deployments.apps; all; and custom resources.
    """

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.get import GetArguments, show

        return await show(session, GetArguments(**options))

    run_with_session(main, kubeconfig, namespace)
