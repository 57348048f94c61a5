"""The command `pykubelet` and its subcommands.

A command is imported when it is named, and what it needs when it runs, so that `--help` is quick.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/cmd.go
"""

from importlib import import_module

import click

from pykubelet import __version__

_COMMANDS = {
    "apiserver": "Run the Kubernetes API for one machine, stored in a single SQLite file.",
    "apply": "Apply manifests to the cluster (server-side apply).",
    "check": "Validate manifests.",
    "completion": "Print the completion script of a shell.",
    "controllers": "Run controllers for any API server.",
    "delete": "Delete objects.",
    "describe": "Describe objects in detail, with their events.",
    "down": "Stop what `pykubelet up` runs from a folder, and remove its data on request.",
    "exec": "Run a command in a container.",
    "get": "List or show objects.",
    "logs": "Print the log of a container.",
    "node": "Run pods on this machine: from an API server, manifests or a URL.",
    "port-forward": "Forward local ports to a pod.",
    "proxy": "Have addresses of Services work on this machine, for any cluster.",
    "token": "Create tokens with which nodes of other machines join.",
    "top": "Show the CPU and memory that nodes or pods use.",
    "up": "Run a whole cluster on this machine: API server, controllers and node.",
    "why": "Explain what a pod waits for, and every decision about it.",
}
"""Each command with its help in one line; its module has the same name."""
_EXAMPLES = """\b
Examples:
  pykubelet up ./manifests          run the manifests of a folder
  pykubelet get pods                list the pods, in another terminal
  pykubelet why web                 explain what a pod waits for
  pykubelet get --help              show the help of a command

Exit codes: 0 success, 1 failure or not found, 2 invalid arguments.
"""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        found = vars(import_module(f"pykubelet.cli.{cmd_name.replace('-', '_')}")).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in the help without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([*_COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=_EXAMPLES,
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """A kubelet in Python, an API server for one machine, and the everyday part of kubectl."""
