"""`pykubelet token`: creates the tokens with which nodes of other machines join a cluster.

Upstream: cmd/kubeadm/app/cmd/token.go
"""

from pathlib import Path

import click

from pykubelet.cli.client_command import EXISTING_FILE, epilog, fail, whole_seconds


@click.group(epilog=epilog("pykubelet token create --print-join-command", "pykubelet token create --ttl 1h"))
def token() -> None:
    """Create tokens with which nodes of other machines join."""


@token.command(epilog=epilog("pykubelet token create --print-join-command"))
@click.option(
    "--kubeconfig", type=EXISTING_FILE, help="Kubeconfig; by default KUBECONFIG, then .pykubelet/admin.kubeconfig."
)
@click.option(
    "--ttl", "seconds", default="24h", show_default=True, callback=whole_seconds, metavar="DURATION", help="Lifetime."
)
@click.option("--print-join-command", "with_command", is_flag=True, help="Print the command that joins with the token.")
def create(*, kubeconfig: Path | None, seconds: int, with_command: bool) -> None:
    """Create a token and print it. It is a secret: machines that have it may join until it expires."""
    if seconds <= 0:
        raise click.BadParameter("a token must be valid for some time", param_hint="'--ttl'")
    from pykubelet.app.joining.command import run_token_create
    from pykubelet.app.settings import CannotStart

    try:
        run_token_create(kubeconfig, seconds=seconds, with_command=with_command, say=click.echo)
    except CannotStart as error:
        fail(f"error: {error}")
