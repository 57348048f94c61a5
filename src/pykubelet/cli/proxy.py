"""`pykubelet proxy`: has addresses of Services work on a node of any cluster. The rules outlive it."""

import socket
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import click

from pykubelet.cli.client_command import EXISTING_FILE
from pykubelet.cli.server_command import start, with_logs

_EXAMPLES = """\b
Examples:
  pykubelet proxy --kubeconfig proxy.kubeconfig
  pykubelet proxy --kubeconfig proxy.kubeconfig --cluster-cidr 10.244.0.0/16
  pykubelet proxy --cleanup

Exit codes: 0 stopped by a signal, 1 failure, 2 invalid arguments.
"""


def _cidrs(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    """Ranges of addresses, checked; an option callback."""
    try:
        return tuple(str(ip_network(part.strip())) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(epilog=_EXAMPLES)
@click.option("--kubeconfig", type=EXISTING_FILE, help="Kubeconfig of the API server; required unless --cleanup.")
@click.option("--hostname-override", default="", metavar="NAME", help="Name of the node; by default the host name.")
@click.option(
    "--cluster-cidr",
    "cluster_cidrs",
    default="",
    metavar="CIDR,...",
    callback=_cidrs,
    help="Addresses of pods; traffic to Services from other addresses is masqueraded.",
)
@click.option("--cleanup", is_flag=True, help="Delete the rules that a proxy left, and exit.")
@with_logs
def proxy(
    *, verbose: bool, log_format: str, kubeconfig: Path | None, hostname_override: str, cleanup: bool, **options: Any
) -> None:
    """Have addresses of Services work on this machine, as kube-proxy does in its nftables mode.

    Needs root and the program nft. When it stops, the rules stay, so that traffic goes on until it runs again.
    """
    from pykubelet.app import proxy as programs
    from pykubelet.app.settings import ProxySettings

    if cleanup:
        start(programs.cleanup, None, verbose=verbose, log_format=log_format)
        return
    if kubeconfig is None:
        raise click.UsageError("Missing option '--kubeconfig'.")
    name = (hostname_override or socket.gethostname()).strip().lower()
    settings = ProxySettings(kubeconfig=kubeconfig, node_name=name, **options)
    start(programs.run, settings, verbose=verbose, log_format=log_format)
