"""`pykubelet up`: a cluster of one machine, until told to stop.

Exit code 0 after SIGINT or SIGTERM, 1 if it cannot start or go on, 2 for arguments that make no sense. Containers go on
running when it ends, and are found again.
"""

import gc
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from pykubelet.cli.server_command import page_options, page_settings, start, with_logs

_EXAMPLES = """\b
Examples:
  pykubelet up                          an empty cluster
  pykubelet up ./manifests              with what is in a folder
  pykubelet up web.yaml --port 0 --runtime process
  export KUBECONFIG=.pykubelet/admin.kubeconfig; pykubelet get pods

Ctrl-C stops it, never a container. Exit codes: 0 it was told to stop, 1 it could not start or go on, 2 the arguments
make no sense.
"""


@click.command(epilog=_EXAMPLES)
@click.argument("manifests", metavar="[PATH]...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".pykubelet"),
    show_default=True,
    help="Where everything is kept: the objects, keys and certificates, admin.kubeconfig, volumes and logs of pods.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="The port of the API; 0 takes any free one.",
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "cri", "process", "sim"]),
    default="auto",
    show_default=True,
    help="What runs containers: a CRI runtime, plain processes, or a simulation; auto takes the first there is.",
)
@click.option("--node-name", default="", metavar="NAME", help="The node's name; by default that of the machine.")
@page_options(default_port=6480)
@with_logs
def up(*, verbose: bool, log_format: str, **options: Any) -> None:
    """Run pods on this machine: an API server and a node in one process.

    PATH is a file or a folder of manifests. Pods in it run as static pods; objects of other kinds are applied. Both
    follow their file: edit it, and they change; remove it, and they go. On a terminal the pods are shown as they change,
    unless -v is given.
    """
    name = (options.pop("node_name") or socket.gethostname()).strip().lower()
    data = options.pop("data_dir").absolute()
    # What is imported stays: looking for garbage in it meanwhile would cost a tenth of the start.
    gc.disable()
    from pykubelet.app.cluster import run
    from pykubelet.app.settings import ClusterSettings

    page = page_settings(options)
    settings = ClusterSettings(node_name=name, data_dir=data, page=page, **options)
    if verbose or log_format == "json" or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        start(run, settings, verbose=verbose, log_format=log_format)
        return
    from pykubelet.cli.printers.live_view import LiveView

    view = LiveView(sys.stderr)
    start(partial(run, view=view), settings, lines=view.lines)
