"""What commands of an API server's client share: options, sessions, error messages, exit codes.

Exit codes: 0 success, 1 failure or not found, 2 invalid arguments, 130 after Ctrl-C, 143 after SIGTERM.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go,
staging/src/k8s.io/cli-runtime/pkg/genericclioptions/config_flags.go
"""

import asyncio
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from pykubelet.cli import completion
from pykubelet.cli.printers.terminal import escape_terminal

if TYPE_CHECKING:
    from pykubelet.cli.actions.session import ApiSession

_DURATION = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?|0")
F = TypeVar("F", bound=Callable[..., Any])
EXIT_CODES = "Exit codes: 0 success, 1 failure or not found, 2 invalid arguments."
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
PORT = click.IntRange(0, 65535)
INTERRUPTED, TERMINATED = 130, 143
"""The shell's exit codes for SIGINT and SIGTERM."""


def duration_option(*names: str, help: str) -> Callable[[F], F]:
    """An option in the form 30s, 1m30s or 2h, by default 0; the command gets whole seconds."""
    return click.option(*names, default="0", callback=whole_seconds, metavar="DURATION", help=help)


def whole_seconds(_context: click.Context | None, _option: click.Parameter | None, text: str) -> int:
    """The seconds of a duration such as 30s, 1m30s or 2h; an option callback."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 30s or 1m30s")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


class OutputFormat(click.Choice[str]):
    """An output format; kubectl also accepts `-o=json`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(str(value).removeprefix("="), param, ctx)


def server_options(command: F) -> F:
    """Adds the options of the API server and namespace."""
    command = click.option(
        "--kubeconfig",
        type=EXISTING_FILE,
        help="Kubeconfig; by default KUBECONFIG, then .pykubelet/admin.kubeconfig.",
    )(command)
    return click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NS",
        help="Namespace; by default the kubeconfig's.",
        shell_complete=completion.namespaces,
    )(command)


def selection_options(command: F) -> F:
    """Adds the options of the label and field selectors."""
    command = click.option(
        "--field-selector", default="", metavar="SELECTOR", help="Field selector, as in status.phase=Running."
    )(command)
    return click.option(
        "-l", "--selector", default="", metavar="SELECTOR", help="Label selector, as in app=web,tier!=cache."
    )(command)


def epilog(*examples: str) -> str:
    """The end of a command's help: examples and exit codes."""
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{EXIT_CODES}"


def fail(message: str) -> NoReturn:
    """Print an error and exit with code 1."""
    print_error(message)
    sys.exit(1)


def print_error(message: str) -> None:
    """Print a line on standard error; its first word is red on a terminal."""
    first, colon, rest = escape_terminal(message).partition(":")
    click.echo(click.style(first + colon, fg="red") + rest if colon else first, err=True)


def warn(text: str) -> None:
    """Print a warning of the server."""
    click.echo(f"{click.style('Warning:', fg='yellow')} {escape_terminal(text)}", err=True)


def run_with_session(
    main: "Callable[[ApiSession], Awaitable[int]]", kubeconfig: Path | None, namespace: str
) -> NoReturn:
    """Run a command with a session, print its error, and exit with its code."""
    from pykubelet.api.errors import ApiError
    from pykubelet.app.settings import CannotStart
    from pykubelet.cli.actions.resource_args import AmbiguousArguments, NoPod, UnknownResourceType
    from pykubelet.cli.actions.session import api_error_text, open_session

    async def session_main() -> int:
        has_ended = _cancelled_by_term()
        try:
            async with open_session(kubeconfig, namespace, warn) as session:
                return await main(session)
        except asyncio.CancelledError:
            if has_ended():
                return TERMINATED
            raise

    try:
        code = asyncio.run(session_main())
    except ApiError as error:
        fail(api_error_text(error))
    except (CannotStart, NoPod, UnknownResourceType) as error:
        fail(f"error: {error}")
    except AmbiguousArguments as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _cancelled_by_term() -> Callable[[], bool]:
    """Cancel this task on SIGTERM, so that the terminal is restored; returns whether that happened."""
    task, is_ended = asyncio.current_task(), asyncio.Event()
    assert task is not None

    def end() -> None:
        is_ended.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    return is_ended.is_set
