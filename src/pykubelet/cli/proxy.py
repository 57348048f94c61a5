"""`pykubelet proxy`: has addresses of Services work on a node of any cluster. The rules outlive it."""

import socket
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import click

from pykubelet.cli.client_command import EXISTING_FILE
from pykubelet.cli.server_command import start, with_logs

_MOST_PORT = 65535
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


def _nodeport_addresses(_context: click.Context, _option: click.Parameter, text: str) -> tuple[Any, ...]:
    """Ranges of the machine's addresses, checked; an option callback."""
    from pykubelet.proxy.nodeport_addresses import parse_nodeport_addresses

    try:
        return parse_nodeport_addresses(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _bind_address(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, int] | None:
    """The IP address and port, checked; an option callback."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    try:
        address = str(ip_address(host.removeprefix("[").removesuffix("]")))
    except ValueError:
        address = ""
    if not address or not port.isdecimal() or int(port) > _MOST_PORT:
        raise click.BadParameter(f"{text} is not ADDRESS:PORT, such as 127.0.0.1:10256")
    return address, int(port)


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
@click.option(
    "--service-cidr",
    "service_cidrs",
    default="",
    metavar="CIDR,...",
    callback=_cidrs,
    help="Addresses of Services; packets to those that no Service has are dropped.",
)
@click.option(
    "--nodeport-addresses",
    default="primary",
    show_default=True,
    metavar="CIDR,...",
    callback=_nodeport_addresses,
    help="Addresses of the machine with node ports; `primary`: the node's own.",
)
@click.option("--masquerade-all", is_flag=True, help="Masquerade all traffic to cluster IPs.")
@click.option(
    "--healthz-bind-address",
    default="127.0.0.1:10256",
    show_default=True,
    metavar="ADDRESS:PORT",
    callback=_bind_address,
    help="Where /healthz and /livez are served, in plain HTTP; empty: nowhere.",
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
