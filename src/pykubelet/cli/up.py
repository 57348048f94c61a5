"""`pykubelet up`: runs a cluster of one machine. Containers keep running when it stops."""

import gc
import os
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykubelet.cli.addresses import cluster_range, ipv4_address, service_range
from pykubelet.cli.client_command import FOLDER, PORT
from pykubelet.cli.server_command import (
    page_options,
    page_settings,
    pod_network_options,
    start,
    start_empty_option,
    with_logs,
)

if TYPE_CHECKING:
    from ipaddress import IPv4Network

_INGRESS = ("bind", "http_port", "https_port")
_EXAMPLES = """\b
Examples:
  pykubelet up                          an empty cluster
  pykubelet up ./manifests              with the manifests of a folder
  pykubelet up web.yaml --port 0 --runtime process
  export KUBECONFIG=.pykubelet/admin.kubeconfig; pykubelet get pods

Ctrl-C stops the cluster; containers keep running.
Exit codes: 0 stopped by a signal, 1 failure, 2 invalid arguments.
"""


@click.command(epilog=_EXAMPLES)
@click.argument("manifests", metavar="[PATH]...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--data-dir",
    type=FOLDER,
    default=Path(".pykubelet"),
    show_default=True,
    help="Folder of the database, keys, certificates, admin.kubeconfig, and of pod volumes and logs.",
)
@start_empty_option
@click.option("--port", type=PORT, default=6443, show_default=True, help="Port of the API; 0 takes any free one.")
@click.option(
    "--bind",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    callback=ipv4_address,
    help="Address of this machine to listen on, 0.0.0.0 for all; unless it is loopback, other machines' nodes may join.",
)
@click.option(
    "--service-cluster-ip-range",
    "service_cluster_ips",
    default="10.96.0.0/12",
    show_default=True,
    metavar="CIDR",
    callback=service_range,
    help="IPv4 range of the addresses of Services.",
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "cri", "process", "sim"]),
    default="auto",
    show_default=True,
    help="Container runtime: a CRI runtime, plain processes, or a simulation; auto takes the first available.",
)
@click.option("--cri-socket", default="", metavar="PATH", help="Socket of the CRI runtime.")
@click.option("--max-pods", type=click.IntRange(1), default=110, show_default=True, help="Maximum number of pods.")
@pod_network_options
@click.option(
    "--cluster-cidr",
    default="10.244.0.0/16",
    show_default=True,
    metavar="CIDR",
    callback=cluster_range,
    help="IPv4 range of the addresses of pods; each node gets 256 of them.",
)
@click.option("--node-name", default="", metavar="NAME", help="Name of the node; by default the host name.")
@click.option(
    "--cluster-dns",
    multiple=True,
    metavar="ADDRESS",
    help="Name server of pods; repeatable. By default `kube-dns` if the service proxy runs, else those of the machine.",
)
@click.option(
    "--service-proxy/--no-service-proxy",
    default=True,
    show_default=True,
    help="Have addresses of Services work on this machine, through nftables.",
)
@click.option(
    "--ingress/--no-ingress",
    default=True,
    show_default=True,
    help="Serve Ingresses; the ports are opened when there is the first one.",
)
@click.option(
    "--ingress-bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to serve Ingresses on."
)
@click.option(
    "--ingress-http-port", type=PORT, help="Port of Ingresses; by default 80, or 8080 if this user may not use that."
)
@click.option("--ingress-https-port", type=PORT, help="Port of Ingresses with TLS; by default 443, or 8443 likewise.")
@page_options(default_port=6480)
@with_logs
def up(*, verbose: bool, log_format: str, **options: Any) -> None:
    """Run a whole cluster on this machine: API server, controllers and node in one process.

    PATH is a manifest file or a folder of manifests. Pods run as static pods; objects of other kinds are applied. Both
    follow their file: edit it, and they change; remove it, and they are deleted. On a terminal the pods are shown as
    they change, unless -v is given.
    """
    chosen_name: str = options.pop("node_name")
    name = (chosen_name or socket.gethostname()).strip().lower()
    data = options.pop("data_dir").absolute()
    # Imported objects stay alive: collecting garbage meanwhile would cost a tenth of the start time.
    gc.disable()
    from pykubelet.app.cluster import run
    from pykubelet.app.settings import ClusterSettings, IngressSettings

    if options["service_cluster_ips"].overlaps(options["cluster_cidr"]):
        raise click.UsageError("--service-cluster-ip-range and --cluster-cidr overlap: choose ranges that do not")
    if options["bind"] != "127.0.0.1" and not _is_part(options["pod_cidr"], options["cluster_cidr"]):
        raise click.UsageError("--pod-cidr is no part of --cluster-cidr, so other nodes could not reach these pods")
    page, ingress = page_settings(options), {name: options.pop(f"ingress_{name}") for name in _INGRESS}
    options["ingress"] = IngressSettings(**ingress) if options["ingress"] else None
    settings = ClusterSettings(node_name=name, is_default_name=not chosen_name, data_dir=data, page=page, **options)
    if verbose or log_format == "json" or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        start(
            run, replace(settings, show_join_command=_is_terminal(log_format)), verbose=verbose, log_format=log_format
        )
        return
    from pykubelet.cli.printers.live_view import LiveView

    view = LiveView(sys.stderr)
    start(partial(run, view=view.run), replace(settings, show_join_command=True), lines=view)


def _is_part(pod_cidr: str, cluster_cidr: "IPv4Network") -> bool:
    from ipaddress import IPv4Network

    return not pod_cidr or IPv4Network(pod_cidr).subnet_of(cluster_cidr)


def _is_terminal(log_format: str) -> bool:
    """Whether messages are for a person's eyes only, and not for a log."""
    return log_format != "json" and sys.stderr.isatty()
