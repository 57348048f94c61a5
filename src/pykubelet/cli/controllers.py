"""`pykubelet controllers`: the controllers for an API server, until told to stop.

Exit code 0 after SIGINT or SIGTERM, 1 if it cannot start or go on, 2 for arguments that make no sense.
"""

from pathlib import Path
from typing import Any

import click

from pykubelet.cli.server_command import start, with_logs

_EXAMPLES = """\b
Examples:
  pykubelet controllers --kubeconfig controllers.kubeconfig
  pykubelet controllers --kubeconfig controllers.kubeconfig --controllers replicaset,job

Exit codes: 0 it was told to stop, 1 it could not start or go on, 2 the arguments make no sense.
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="How to reach the API server.",
)
@click.option(
    "--controllers",
    "names",
    default="",
    metavar="NAME,...",
    help="Only these; by default all. An unknown name is answered with those there are.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Work only while holding a lease, so that several may run and one works.",
)
@with_logs
def controllers(*, verbose: bool, log_format: str, names: str, **options: Any) -> None:
    """Run controllers: Deployments, Jobs, the scheduler and others, for any API server."""
    from pykubelet.app.controllers import run
    from pykubelet.app.settings import ControllersSettings

    chosen = tuple(name.strip() for name in names.split(",") if name.strip())
    start(run, ControllersSettings(names=chosen, **options), verbose=verbose, log_format=log_format)
