"""`pykubelet controllers`: runs the controllers for an API server."""

from typing import TYPE_CHECKING, Any

import click

from pykubelet.cli.addresses import cluster_range
from pykubelet.cli.client_command import EXISTING_FILE
from pykubelet.cli.server_command import start, with_logs

if TYPE_CHECKING:
    from ipaddress import IPv4Network

_EXAMPLES = """\b
Examples:
  pykubelet controllers --kubeconfig controllers.kubeconfig
  pykubelet controllers --kubeconfig controllers.kubeconfig --controllers replicaset,job

Exit codes: 0 stopped by a signal, 1 failure, 2 invalid arguments.
"""


@click.command(epilog=_EXAMPLES)
@click.option("--kubeconfig", type=EXISTING_FILE, required=True, help="Kubeconfig of the API server.")
@click.option(
    "--controllers",
    "names",
    default="",
    metavar="NAME,...",
    help="Controllers to run; by default all. An unknown name prints the list.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Run only while holding a lease, so that one of several replicas works.",
)
@click.option(
    "--allocate-node-cidrs", "allocates", is_flag=True, help="Assign a range of pods to each node: `spec.podCIDR`."
)
@click.option(
    "--cluster-cidr",
    default="10.244.0.0/16",
    show_default=True,
    metavar="CIDR",
    callback=cluster_range,
    help="IPv4 range of pods for --allocate-node-cidrs; each node gets 256 addresses of it.",
)
@with_logs
def controllers(
    *, verbose: bool, log_format: str, names: str, allocates: bool, cluster_cidr: "IPv4Network", **options: Any
) -> None:
    """Run controllers: Deployments, Jobs, the scheduler and others, for any API server."""
    from pykubelet.app.controllers import run
    from pykubelet.app.settings import ControllersSettings

    chosen = tuple(name.strip() for name in names.split(",") if name.strip())
    settings = ControllersSettings(names=chosen, cluster_cidr=cluster_cidr if allocates else None, **options)
    start(run, settings, verbose=verbose, log_format=log_format)
