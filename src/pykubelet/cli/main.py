"""The command `pykubelet` and its subcommands.

What a command needs is imported when it runs, so that asking for help is quick.
"""

import click

from pykubelet import __version__
from pykubelet.cli.apiserver import apiserver
from pykubelet.cli.check import check
from pykubelet.cli.controllers import controllers
from pykubelet.cli.node import node
from pykubelet.cli.up import up
from pykubelet.cli.why import why


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """A kubelet in Python, and an API server for one machine."""


main.add_command(apiserver)
main.add_command(check)
main.add_command(controllers)
main.add_command(node)
main.add_command(up)
main.add_command(why)
