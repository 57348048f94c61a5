"""`pykubelet node`: runs pods on this machine, for an API server or standalone. Containers outlive it."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykubelet.cli.addresses import bootstrap_token, public_key_hashes, server_url
from pykubelet.cli.client_command import EXISTING_FILE, FOLDER, PORT, duration_option
from pykubelet.cli.server_command import page_options, page_settings, pod_network_options, start, with_logs

if TYPE_CHECKING:
    from pykubelet.app.settings import JoinSettings

_EXAMPLES = """\b
Examples:
  pykubelet node --runtime process --manifests ./pods
  pykubelet node --runtime cri --kubeconfig node.kubeconfig
  pykubelet node --join https://10.0.0.1:6443 --token TOKEN --ca-cert-hash sha256:HASH
  pykubelet node --runtime cri --kubeconfig node.kubeconfig --bootstrap-kubeconfig join.kubeconfig

Containers keep running when the node stops.
Exit codes: 0 stopped by a signal, 1 failure, 2 invalid arguments.
"""


def _thresholds(_context: click.Context, _option: click.Parameter, text: str) -> dict[str, str]:
    """Eviction thresholds by signal; an option callback."""
    pairs = [pair.partition("<") for pair in text.split(",") if pair.strip()]
    if any(not between for _, between, _ in pairs):
        raise click.BadParameter(f"{text!r} is not of the form SIGNAL<AMOUNT,...")
    return {signal.strip(): amount.strip() for signal, _, amount in pairs}


@click.command(epilog=_EXAMPLES)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Kubeconfig of the API server; without it the node is standalone and runs static pods only.",
)
@click.option(
    "--bootstrap-kubeconfig",
    type=EXISTING_FILE,
    help="Kubeconfig to request a client certificate with if --kubeconfig has no valid one; writes --kubeconfig.",
)
@click.option(
    "--join",
    "join_url",
    default="",
    metavar="URL",
    callback=server_url,
    help="Join the cluster of `pykubelet up --bind` at this URL; after a restart this option alone is enough.",
)
@click.option("--token", default="", metavar="TOKEN", callback=bootstrap_token, help="Bootstrap token of --join.")
@click.option(
    "--ca-cert-hash",
    "ca_cert_hashes",
    multiple=True,
    metavar="sha256:HASH",
    callback=public_key_hashes,
    help="Hash of the public key of the authority of the cluster that --join names; repeatable.",
)
@click.option(
    "--rotate-certificates/--no-rotate-certificates",
    default=True,
    show_default=True,
    help="Renew the node's client certificate before it expires.",
)
@click.option("--rotate-server-certificates", is_flag=True, help="Have the API server sign the serving certificate.")
@click.option("--node-name", default="", metavar="NAME", help="Name of the node; by default the host name.")
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Manifest file, or folder of manifests, of static pods; repeatable.",
)
@click.option("--manifest-url", default="", metavar="URL", help="URL of static pods.")
@click.option(
    "--manifest-url-header", multiple=True, metavar="KEY:VALUE", help="Header of --manifest-url requests; repeatable."
)
@click.option(
    "--manifest-url-header-file",
    type=EXISTING_FILE,
    help="File of further headers, one KEY:VALUE per line; a command line is visible to every user of the machine.",
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "cri", "process", "sim"]),
    default="auto",
    show_default=True,
    help="Container runtime: a CRI runtime, plain processes, or a simulation; auto takes the first available.",
)
@pod_network_options
@click.option("--cri-socket", default="", metavar="PATH", help="Socket of the CRI runtime.")
@click.option(
    "--cgroup-root", default="/", show_default=True, metavar="PATH", help="Parent cgroup of pods on a CRI runtime."
)
@click.option(
    "--cluster-dns",
    multiple=True,
    metavar="ADDRESS",
    help="Address of the cluster DNS; repeatable. Without it pods use the machine's name servers.",
)
@click.option("--cluster-domain", default="cluster.local", show_default=True, help="DNS domain of the cluster.")
@click.option(
    "--root-dir",
    type=FOLDER,
    default=Path(".pykubelet/node"),
    show_default=True,
    help="Folder of pod volumes, logs and node state.",
)
@click.option(
    "--port", type=PORT, default=10250, show_default=True, help="Port of the node's API; 0 takes any free one."
)
@click.option(
    "--bind",
    default="",
    metavar="ADDRESS",
    help="Listening address of the node's API; by default loopback if the API server is there, else the machine's.",
)
@click.option(
    "--client-ca", type=EXISTING_FILE, help="Authority (PEM) of client certificates; by default that of the kubeconfig."
)
@click.option("--max-pods", type=click.IntRange(1), default=110, show_default=True, help="Maximum number of pods.")
@click.option(
    "--pod-max-pids",
    type=int,
    default=4096,
    show_default=True,
    help="Maximum number of processes of a container, with CRI of a pod; -1 for no limit.",
)
@click.option(
    "--seccomp-default/--no-seccomp-default",
    default=True,
    show_default=True,
    help="Use the CRI runtime's default seccomp profile for containers without one.",
)
@click.option(
    "--eviction-hard",
    default="memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%",
    show_default=True,
    callback=_thresholds,
    metavar="SIGNAL<AMOUNT,...",
    help="Hard eviction thresholds; empty for none.",
)
@duration_option(
    "--shutdown-grace-period",
    "shutdown_grace_seconds",
    help="Stop all pods within this time when the node shuts down; by default they keep running.",
)
@duration_option(
    "--shutdown-grace-period-critical-pods",
    "shutdown_grace_seconds_critical",
    help="Last part of --shutdown-grace-period, reserved for critical pods.",
)
@page_options(default_port=0)
@with_logs
@click.pass_context
def node(context: click.Context, /, *, verbose: bool, log_format: str, **options: Any) -> None:
    """Run pods on this machine: from an API server, manifests or a URL."""
    lines = (*options.pop("manifest_url_header"), *_lines(context, options.pop("manifest_url_header_file")))
    headers = _headers(context, lines)
    if options["bootstrap_kubeconfig"] and not options["kubeconfig"]:
        raise click.UsageError("--bootstrap-kubeconfig needs --kubeconfig, the file to write", context)
    root = options.pop("root_dir").absolute()
    join = _join_settings(context, options, root)
    chosen_name: str = options.pop("node_name")
    name = (chosen_name or socket.gethostname()).strip().lower()
    from pykubelet.app.node_program import run
    from pykubelet.app.settings import POD_CIDR, NodeSettings

    page, pod_cidr = page_settings(options), options.pop("pod_cidr")
    settings = NodeSettings(
        node_name=name,
        is_default_name=not chosen_name,
        root_dir=root,
        manifest_url_headers=headers,
        join=join,
        pod_cidr=pod_cidr or POD_CIDR,
        node_pod_cidr=pod_cidr,
        page=page,
        **options,
    )
    start(run, settings, verbose=verbose, log_format=log_format)


def _join_settings(context: click.Context, options: dict[str, Any], root: Path) -> "JoinSettings | None":
    """Remove the options of joining and return their settings; UsageError if they do not fit together."""
    from pykubelet.app.settings import JoinSettings

    url, token, hashes = (options.pop(name) for name in ("join_url", "token", "ca_cert_hashes"))
    if not url:
        if token or hashes:
            raise click.UsageError("--token and --ca-cert-hash need --join", context)
        return None
    if options["bootstrap_kubeconfig"]:
        raise click.UsageError("--join and --bootstrap-kubeconfig are two ways to join: choose one", context)
    if bool(token) != bool(hashes):
        raise click.UsageError("--token and --ca-cert-hash need each other", context)
    options["kubeconfig"] = options["kubeconfig"] or root / "kubeconfig"
    return JoinSettings(server=url, token=token, ca_cert_hashes=hashes)


def _lines(context: click.Context, path: Path | None) -> tuple[str, ...]:
    """The lines of a file with secrets; UsageError if other users can read it."""
    if path is None:
        return ()
    if path.stat().st_mode & 0o077:
        raise click.UsageError(f"--manifest-url-header-file: others may read or write {path} (chmod 600)", context)
    return tuple(line for line in path.read_text().splitlines() if line.strip())


def _headers(context: click.Context, lines: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Headers by name, in order; a name may have several values."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            # The value may be a secret, so the message does not repeat it.
            raise click.UsageError("a header of --manifest-url needs the form KEY:VALUE", context)
        found[name.strip()] = (*found.get(name.strip(), ()), value.strip())
    return found
