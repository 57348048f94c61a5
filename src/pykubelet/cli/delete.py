"""`pykubelet delete`: the end of objects, by name, by labels or by manifest."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykubelet.cli.client_command import (
    OutputFormat,
    epilog,
    run_with_session,
    selection_options,
    server_options,
    whole_seconds,
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
@click.option("-f", "--filename", "names", multiple=True, metavar="FILE|DIR|-", help="What these manifests name.")
@click.option("-R", "--recursive", is_flag=True, help="With folders in folders.")
@server_options
@click.option("-A", "--all-namespaces", is_flag=True, help="In every namespace.")
@selection_options
@click.option("--all", "everything", is_flag=True, help="All of the type.")
@click.option(
    "--grace-period", type=int, default=-1, metavar="SECONDS", help="How long they get; by default their own."
)
@click.option("--now", is_flag=True, help="The same as --grace-period=1.")
@click.option("--force", is_flag=True, help="At once, without waiting for what runs; may leave things running.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until they are gone.")
@click.option(
    "--timeout",
    "timeout_seconds",
    default="0",
    callback=whole_seconds,
    metavar="DURATION",
    help="How long to wait; 0 for long.",
)
@click.option(
    "--cascade", type=_CASCADE, default="background", show_default=True, help="What becomes of what they own."
)
@click.option("--ignore-not-found", is_flag=True, help="Exit code 0 if it is not there.")
@click.option("--dry-run", type=click.Choice(["none", "server"]), default="none", help="Only ask what would happen.")
@click.option("-o", "--output", type=OutputFormat(["", "name"]), default="", metavar="name", help="Print names alone.")
def delete(kubeconfig: Path | None, namespace: str, **options: Any) -> None:
    """Delete objects and wait until they are gone."""
    if bool(options["words"]) == bool(options["names"]):
        raise click.UsageError("name either objects or, with -f, manifests")

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.delete import DeleteArguments, delete_all

        return await delete_all(session, DeleteArguments(**options))

    run_with_session(main, kubeconfig, namespace)
