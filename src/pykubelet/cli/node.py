"""`pykubelet node`: run pods on this machine, for an API server or on its own, until told to stop.

Exit code 0 after SIGINT or SIGTERM, 1 if it cannot start or go on, 2 for arguments that make no sense. Containers go on
running when it ends, and are found again.
"""

import socket
import sys
from pathlib import Path
from typing import Any

import click


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="How to reach the API server; without it the node is on its own and runs static pods only.",
)
@click.option("--node-name", default="", metavar="NAME", help="The node's name; by default that of the machine.")
@click.option(
    "--manifests", type=click.Path(path_type=Path), metavar="DIR", help="Run the pods in this folder, or this file."
)
@click.option("--manifest-url", default="", metavar="URL", help="Run the pods that this URL gives.")
@click.option(
    "--manifest-url-header", multiple=True, metavar="KEY:VALUE", help="Send this with --manifest-url; repeatable."
)
@click.option(
    "--runtime",
    type=click.Choice(["cri", "process", "sim"]),
    required=True,
    help="What runs containers: a CRI runtime, plain processes, or a simulation.",
)
@click.option("--cri-socket", default="", metavar="PATH", help="The socket of the CRI runtime.")
@click.option(
    "--root-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".pykubelet/node"),
    show_default=True,
    help="Where the volumes and logs of pods are kept.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=10250, show_default=True, help="The port of the node's own API."
)
@click.option("--max-pods", type=click.IntRange(1), default=110, show_default=True, help="How many pods it takes.")
@click.option("-v", "--verbose", is_flag=True, help="Log details.")
@click.pass_context
def node(context: click.Context, /, *, verbose: bool, **options: Any) -> None:
    """Run pods on this machine: those of an API server, of a folder, of a URL."""
    headers = _headers(context, options.pop("manifest_url_header"))
    name = options.pop("node_name") or socket.gethostname().lower()
    root = options.pop("root_dir").absolute()
    from pykubelet.app.node import run
    from pykubelet.app.settings import CannotStart, NodeSettings

    try:
        run(
            NodeSettings(node_name=name, root_dir=root, manifest_url_headers=headers, **options),
            say=_say,
            verbose=verbose,
        )
    except CannotStart as error:
        _say(f"error: {error}")
        sys.exit(1)


def _headers(context: click.Context, lines: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Headers by name, in their order; one name may have several values."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            # The value may be a secret, so it is not repeated.
            raise click.UsageError("--manifest-url-header needs the form KEY:VALUE", context)
        found[name.strip()] = (*found.get(name.strip(), ()), value.strip())
    return found


def _say(line: str) -> None:
    click.echo(line, err=True)
