"""`pykubelet node`: run pods on this machine, for an API server or on its own, until told to stop.

Exit code 0 after SIGINT or SIGTERM, 1 if it cannot start or go on, 2 for arguments that make no sense. Containers go on
running when it ends, and are found again.
"""

import socket
from pathlib import Path
from typing import Any

import click

from pykubelet.cli.client_command import whole_seconds
from pykubelet.cli.server_command import page_options, page_settings, start, with_logs

_EXAMPLES = """\b
Examples:
  pykubelet node --runtime process --manifests ./pods
  pykubelet node --runtime cri --kubeconfig node.kubeconfig
  pykubelet node --runtime cri --kubeconfig node.kubeconfig --bootstrap-kubeconfig join.kubeconfig

Containers go on running when it ends.
Exit codes: 0 it was told to stop, 1 it could not start or go on, 2 the arguments make no sense.
"""


def _thresholds(_context: click.Context, _option: click.Parameter, text: str) -> dict[str, str]:
    """Amounts by signal."""
    pairs = [pair.partition("<") for pair in text.split(",") if pair.strip()]
    if any(not between for _, between, _ in pairs):
        raise click.BadParameter(f"{text!r} is not of the form SIGNAL<AMOUNT,...")
    return {signal.strip(): amount.strip() for signal, _, amount in pairs}


@click.command(epilog=_EXAMPLES)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="How to reach the API server; without it the node is on its own and runs static pods only.",
)
@click.option(
    "--bootstrap-kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Ask for a client certificate with this if --kubeconfig has none that is valid; --kubeconfig is written then.",
)
@click.option(
    "--rotate-certificates/--no-rotate-certificates",
    default=True,
    show_default=True,
    help="Renew the node's client certificate in time.",
)
@click.option(
    "--rotate-server-certificates", is_flag=True, help="Have the API server sign the certificate of the node's own API."
)
@click.option("--node-name", default="", metavar="NAME", help="The node's name; by default that of the machine.")
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run the pods in this folder, or this file; repeatable.",
)
@click.option("--manifest-url", default="", metavar="URL", help="Run the pods that this URL gives.")
@click.option(
    "--manifest-url-header", multiple=True, metavar="KEY:VALUE", help="Send this with --manifest-url; repeatable."
)
@click.option(
    "--manifest-url-header-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send the lines of this file, each KEY:VALUE, as well: what is on a command line everybody on the machine sees.",
)
@click.option(
    "--runtime",
    type=click.Choice(["cri", "process", "sim"]),
    required=True,
    help="What runs containers: a CRI runtime, plain processes, or a simulation.",
)
@click.option("--cri-socket", default="", metavar="PATH", help="The socket of the CRI runtime.")
@click.option(
    "--cgroup-root", default="/", show_default=True, metavar="PATH", help="The cgroup above those of pods, with CRI."
)
@click.option(
    "--cluster-dns",
    multiple=True,
    metavar="ADDRESS",
    help="A name server of the cluster; repeatable. Without it pods ask those of the machine.",
)
@click.option("--cluster-domain", default="cluster.local", show_default=True, help="The domain of the cluster.")
@click.option(
    "--root-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".pykubelet/node"),
    show_default=True,
    help="Where the volumes and logs of pods are kept.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=10250,
    show_default=True,
    help="The port of the node's own API; 0 takes any free one.",
)
@click.option(
    "--bind",
    default="",
    metavar="ADDRESS",
    help="Where the node's own API listens; by default on loopback if the API server is there, else on its address.",
)
@click.option(
    "--client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Let in clients with certificates of this authority (PEM); by default that of the kubeconfig.",
)
@click.option("--max-pods", type=click.IntRange(1), default=110, show_default=True, help="How many pods it takes.")
@click.option(
    "--pod-max-pids",
    type=int,
    default=4096,
    show_default=True,
    help="How many processes a container may have, with CRI all of a pod together; -1 for any number.",
)
@click.option(
    "--seccomp-default/--no-seccomp-default",
    default=True,
    show_default=True,
    help="Containers that say nothing of seccomp have the profile of the CRI runtime.",
)
@click.option(
    "--eviction-hard",
    default="memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%",
    show_default=True,
    callback=_thresholds,
    metavar="SIGNAL<AMOUNT,...",
    help="With less than this left the node is under pressure and takes no pods; empty for never.",
)
@click.option(
    "--shutdown-grace-period",
    "shutdown_grace_seconds",
    default="0",
    callback=whole_seconds,
    metavar="DURATION",
    help="End all pods when told to stop, within this time; by default they go on.",
)
@click.option(
    "--shutdown-grace-period-critical-pods",
    "shutdown_grace_seconds_critical",
    default="0",
    callback=whole_seconds,
    metavar="DURATION",
    help="The last part of --shutdown-grace-period, for critical pods.",
)
@page_options(default_port=0)
@with_logs
@click.pass_context
def node(context: click.Context, /, *, verbose: bool, log_format: str, **options: Any) -> None:
    """Run pods on this machine: those of an API server, of a folder, of a URL."""
    lines = (*options.pop("manifest_url_header"), *_lines(context, options.pop("manifest_url_header_file")))
    headers = _headers(context, lines)
    if options["bootstrap_kubeconfig"] and not options["kubeconfig"]:
        raise click.UsageError("--bootstrap-kubeconfig needs --kubeconfig, the file to write", context)
    name = (options.pop("node_name") or socket.gethostname()).strip().lower()
    root = options.pop("root_dir").absolute()
    from pykubelet.app.node_program import run
    from pykubelet.app.settings import NodeSettings

    page = page_settings(options)
    settings = NodeSettings(node_name=name, root_dir=root, manifest_url_headers=headers, page=page, **options)
    start(run, settings, verbose=verbose, log_format=log_format)


def _lines(context: click.Context, path: Path | None) -> tuple[str, ...]:
    """The lines of a file that holds secrets, which others must not be able to read."""
    if path is None:
        return ()
    if path.stat().st_mode & 0o077:
        raise click.UsageError(f"--manifest-url-header-file: others may read or write {path} (chmod 600)", context)
    return tuple(line for line in path.read_text().splitlines() if line.strip())


def _headers(context: click.Context, lines: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Headers by name, in their order; one name may have several values."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            # The value may be a secret, so it is not repeated.
            raise click.UsageError("a header of --manifest-url needs the form KEY:VALUE", context)
        found[name.strip()] = (*found.get(name.strip(), ()), value.strip())
    return found
