"""`pykubelet delete`: deletes objects by name, labels or manifest.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/delete/delete.go
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykubelet.cli.client_command import (
    OutputFormat,
    duration_option,
    epilog,
    run_with_session,
    selection_options,
    server_options,
)
from pykubelet.cli.completion import kinds_or_names

if TYPE_CHECKING:
    from pykubelet.cli.actions.session import ApiSession

_EXAMPLES = epilog(
    "pykubelet delete pod web",
    "pykubelet delete deploy/web svc/web -n shop",
    "pykubelet delete pods -l app=web --timeout=30s",
    "pykubelet delete -f ./manifests --ignore-not-found",
    "pykubelet delete pod web --grace-period=0 --force",
)
_CASCADE = click.Choice(["background", "foreground", "orphan"])


@click.command(epilog=_EXAMPLES)
@click.argument("words", nargs=-1, metavar="[TYPE [NAME...] | TYPE/NAME...]", shell_complete=kinds_or_names)
@click.option(
    "-f", "--filename", "names", multiple=True, metavar="FILE|DIR|-", help="Delete the objects in these manifests."
)
@click.option("-R", "--recursive", is_flag=True, help="Include subfolders.")
@server_options
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@selection_options
@click.option("--all", "everything", is_flag=True, help="All objects of the type.")
@click.option(
    "--grace-period", type=int, default=-1, metavar="SECONDS", help="Grace period; by default that of each object."
)
@click.option("--now", is_flag=True, help="The same as --grace-period=1.")
@click.option("--force", is_flag=True, help="Delete immediately, without waiting for containers to stop.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until they are gone.")
@duration_option("--timeout", "timeout_seconds", help="Time to wait; 0 waits for a week.")
@click.option(
    "--cascade", type=_CASCADE, default="background", show_default=True, help="How to delete dependent objects."
)
@click.option("--ignore-not-found", is_flag=True, help="Exit with code 0 if an object does not exist.")
@click.option(
    "--dry-run", type=click.Choice(["none", "server"]), default="none", help="Show what would happen without deleting."
)
@click.option("-o", "--output", type=OutputFormat(["", "name"]), default="", metavar="name", help="Print names only.")
def delete(kubeconfig: Path | None, namespace: str, **options: Any) -> None:
    """Delete objects and wait until they are gone."""
    if bool(options["words"]) == bool(options["names"]):
        raise click.UsageError("give either objects or, with -f, manifests")

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.delete import DeleteArguments, delete_all

        return await delete_all(session, DeleteArguments(**options))

    run_with_session(main, kubeconfig, namespace)
