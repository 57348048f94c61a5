"""Runs a command that talks to an API server, and tells why it cannot.

Exit codes of all these commands: 0 if it worked, 1 if something failed or was not found, 2 for arguments that make no sense,
130 after Ctrl-C, 143 after SIGTERM.

Options that several commands take.

Durations on the command line, as Kubernetes' own programs take them: 30s, 1m30s, 2h.
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

if TYPE_CHECKING:
    from pykubelet.cli.actions.session import ApiSession

_FORM = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?|0")
F = TypeVar("F", bound=Callable[..., Any])
EXIT_CODES = "Exit codes: 0 it worked, 1 something failed or was not found, 2 the arguments make no sense."
INTERRUPTED, TERMINATED = 130, 143
"""What a shell makes of SIGINT and SIGTERM."""


def whole_seconds(_context: click.Context | None, _option: click.Parameter | None, text: str) -> int:
    """How many seconds a duration has; for the `callback` of an option."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 30s or 1m30s")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


class OutputFormat(click.Choice[str]):
    """One of several forms of output; kubectl also takes `-o=json`, so people write it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(str(value).removeprefix("="), param, ctx)


def server_options(command: F) -> F:
    """Which API server, and which namespace."""
    command = click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="How to reach the API server; by default KUBECONFIG, then .pykubelet/admin.kubeconfig.",
    )(command)
    return click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NS",
        help="The namespace; by default the kubeconfig's.",
        shell_complete=completion.namespaces,
    )(command)


def selection_options(command: F) -> F:
    """Which objects of a kind."""
    command = click.option(
        "--field-selector", default="", metavar="SELECTOR", help="Only with these fields, as in status.phase=Running."
    )(command)
    return click.option(
        "-l", "--selector", default="", metavar="SELECTOR", help="Only with these labels, as in app=web,tier!=cache."
    )(command)


def epilog(*examples: str) -> str:
    """What stands at the end of a command's help."""
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{EXIT_CODES}"


def fail(message: str) -> NoReturn:
    """End with a line and exit code 1."""
    print_error(message)
    sys.exit(1)


def print_error(message: str) -> None:
    """A line on standard error; its first word is red on a terminal."""
    first, colon, rest = message.partition(":")
    click.echo(click.style(first + colon, fg="red") + rest if colon else message, err=True)


def warn(text: str) -> None:
    """What a server warns of."""
    click.echo(f"{click.style('Warning:', fg='yellow')} {text}", err=True)


def run_with_session(
    main: "Callable[[ApiSession], Awaitable[int]]", kubeconfig: Path | None, namespace: str
) -> NoReturn:
    """Run a command; it ends with the exit code that it gives."""
    from pykubelet.api.errors import ApiError
    from pykubelet.app.settings import CannotStart
    from pykubelet.cli.actions.resource_args import AmbiguousArguments, UnknownResourceType
    from pykubelet.cli.actions.session import api_error_text, open_session

    async def talking() -> int:
        has_ended = _cancelled_by_term()
        try:
            async with open_session(kubeconfig, namespace, warn) as session:
                return await main(session)
        except asyncio.CancelledError:
            if has_ended():
                return TERMINATED
            raise

    try:
        code = asyncio.run(talking())
    except ApiError as error:
        fail(api_error_text(error))
    except (CannotStart, UnknownResourceType) as error:
        fail(f"error: {error}")
    except AmbiguousArguments as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _cancelled_by_term() -> Callable[[], bool]:
    """Have SIGTERM end this task in order, so that a terminal is left as it was; whether it did."""
    task, told = asyncio.current_task(), asyncio.Event()
    assert task is not None

    def end() -> None:
        told.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    return told.is_set
