"""Runs a command that talks to an API server, and tells why it cannot.

Exit codes of all these commands: 0 if it worked, 1 if something failed or was not found, 2 for arguments that make no sense,
130 after Ctrl-C, 143 after SIGTERM.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from pykubelet.app.commands.session import Session

EXIT_CODES = "Exit codes: 0 it worked, 1 something failed or was not found, 2 the arguments make no sense."
INTERRUPTED, TERMINATED = 130, 143
"""What a shell makes of SIGINT and SIGTERM."""


def epilog(*examples: str) -> str:
    """What stands at the end of a command's help."""
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{EXIT_CODES}"


def fail(message: str) -> NoReturn:
    """End with a line and exit code 1."""
    complain(message)
    sys.exit(1)


def complain(message: str) -> None:
    """A line on standard error; its first word is red on a terminal."""
    first, colon, rest = message.partition(":")
    click.echo(click.style(first + colon, fg="red") + rest if colon else message, err=True)


def warn(text: str) -> None:
    """What a server warns of."""
    click.echo(f"{click.style('Warning:', fg='yellow')} {text}", err=True)


def talk(main: "Callable[[Session], Awaitable[int]]", kubeconfig: Path | None, namespace: str) -> NoReturn:
    """Run a command; it ends with the exit code that it gives."""
    from pykubelet.api.errors import ApiError
    from pykubelet.app.commands.session import open_session
    from pykubelet.app.settings import CannotStart
    from pykubelet.cli.failure_words import failure_words
    from pykubelet.kube.resource_names import UnclearNames, UnknownResource

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
        fail(failure_words(error))
    except (CannotStart, UnknownResource) as error:
        fail(f"error: {error}")
    except UnclearNames as error:
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
