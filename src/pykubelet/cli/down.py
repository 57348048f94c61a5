"""`pykubelet down`: ends what `pykubelet up` runs from a data folder, and removes the data on request."""

from pathlib import Path

import click

from pykubelet.cli.server_command import start, with_logs

_EXAMPLES = """\b
Examples:
  pykubelet down                        stop everything that runs from .pykubelet
  pykubelet down --data-dir /srv/demo
  pykubelet down --purge                also remove objects and volumes, after a question

Exit codes: 0 nothing runs any more, 1 failure or refusal, 2 invalid arguments.
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, readable=False, path_type=Path),
    default=Path(".pykubelet"),
    show_default=True,
    help="Folder that was given to `pykubelet up`.",
)
@click.option("--cri-socket", default="", metavar="PATH", help="Socket of the CRI runtime; by default a usual one.")
@click.option("--purge", is_flag=True, help="Also remove the data: objects, keys, logs and volumes.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask before data is removed.")
@with_logs
def down(*, verbose: bool, log_format: str, data_dir: Path, cri_socket: str, purge: bool, is_confirmed: bool) -> None:
    """Stop the cluster that `pykubelet up` runs from a folder, with its containers, networks, mounts and rules.

    Pods get their grace periods. The data stays, and the next `up` starts the pods again; run it as the same user.
    """
    from pykubelet.app.down import run
    from pykubelet.app.settings import DownSettings

    settings = DownSettings(
        # Not resolved: the folder itself may be a link, which --purge refuses.
        data_dir=data_dir.absolute(),
        cri_socket=cri_socket,
        purge=purge,
        is_confirmed=is_confirmed,
        confirm=lambda question: click.confirm(question, err=True),
    )
    start(run, settings, verbose=verbose, log_format=log_format)
