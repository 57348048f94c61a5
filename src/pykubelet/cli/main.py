"""The command `pykubelet` and its subcommands.

A command is imported when it is named, and what it needs when it runs, so that asking for help is quick.
"""

from importlib import import_module

import click

from pykubelet import __version__

_COMMANDS = {
    "apiserver": ("apiserver", "Run the Kubernetes API for one machine, stored in a single SQLite file."),
    "apply": ("apply", "Make objects be as manifests say."),
    "check": ("check", "Validate manifests."),
    "completion": ("completion", "Print the script that completes words in a shell."),
    "controllers": ("controllers", "Run controllers for any API server."),
    "delete": ("delete", "Delete objects."),
    "describe": ("describe", "Tell all about objects, for people."),
    "exec": ("exec", "Run a command in a container."),
    "get": ("get", "List objects, or show some."),
    "logs": ("logs", "Print the log of a container."),
    "node": ("node", "Run pods on this machine: those of an API server, of a folder, of a URL."),
    "port-forward": ("port_forward", "Forward local ports to a pod."),
    "up": ("up", "Run pods on this machine: an API server and a node in one process."),
    "why": ("why", "Tell what a pod waits for now, and all that was decided about it."),
}
"""The module of each command, in this package, and its job in a line."""
_EXAMPLES = """\b
Examples:
  pykubelet up ./manifests          run what is in a folder
  pykubelet get pods                see it, in another terminal
  pykubelet why web                 what a pod waits for
  pykubelet get --help              more about a command

Exit codes: 0 it worked, 1 something failed or was not found, 2 the arguments make no sense.
"""


class LazyGroup(click.Group):
    """Knows its commands by name; each is imported when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = _COMMANDS[cmd_name][0]
        found = vars(import_module(f"pykubelet.cli.{module}")).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, which needs none of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, job) for name, (_, job) in _COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=_EXAMPLES,
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """A kubelet in Python, an API server for one machine, and the everyday part of kubectl."""
