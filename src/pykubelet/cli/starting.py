"""Starts a program that serves: its logs, and why it cannot.

Everything it says goes to standard error, a line each, in the form that `--log-format` names.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from pykubelet.aio.log import Lines

Settings_contra = TypeVar("Settings_contra", contravariant=True)
Command = TypeVar("Command", bound=Callable[..., Any])


class Program(Protocol[Settings_contra]):
    """Runs until it is told to stop; CannotStart if it cannot."""

    def __call__(self, settings: Settings_contra, /, *, say: Callable[[str], None]) -> None:
        """Run it."""


def with_logs(command: Command) -> Command:
    """Give a command the options about its logs, which are for `start`."""
    form = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Write each line for people, or as a JSON object with at, level and message.",
    )
    return click.option("-v", "--verbose", is_flag=True, help="Log details.")(form(command))


def start(
    program: Program[Settings_contra],
    settings: Settings_contra,
    *,
    verbose: bool = False,
    log_format: str = "text",
    lines: "Lines | None" = None,
) -> None:
    """Run a program; what the user can put right is a line and exit code 1.

    All it says goes to `lines` if they are given, else to standard error.
    """
    import logging

    from pykubelet.aio.clock import SystemClock
    from pykubelet.aio.log import get_logger, write_to
    from pykubelet.app.settings import CannotStart

    is_json, log = log_format == "json", get_logger(__name__)
    level = logging.DEBUG if verbose else logging.INFO
    place = lines or sys.stderr
    write_to(place, clock=SystemClock(), level=level, as_json=is_json)

    def say(line: str) -> None:
        if is_json:
            log.info(line)
        else:
            place.write(f"{line}\n")

    try:
        program(settings, say=say)
    except CannotStart as error:
        (log.error if is_json else say)(f"error: {error}")
        sys.exit(1)
    except Exception as error:
        if not is_json:
            raise
        log.error("the program failed", error=error)
        sys.exit(1)
