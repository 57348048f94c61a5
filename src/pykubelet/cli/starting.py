"""Starts a program that serves, and tells why it cannot."""

import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

import click

Settings_contra = TypeVar("Settings_contra", contravariant=True)


class Program(Protocol[Settings_contra]):
    """Runs until it is told to stop; CannotStart if it cannot."""

    def __call__(self, settings: Settings_contra, /, *, say: Callable[[str], None], verbose: bool) -> None:
        """Run it."""


def start(program: Program[Settings_contra], settings: Settings_contra, *, verbose: bool) -> None:
    """Run a program; what the user can put right is a line and exit code 1."""
    from pykubelet.app.settings import CannotStart

    try:
        program(settings, say=_say, verbose=verbose)
    except CannotStart as error:
        _say(f"error: {error}")
        sys.exit(1)


def _say(line: str) -> None:
    click.echo(line, err=True)
