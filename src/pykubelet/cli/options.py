"""Options that several commands take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pykubelet.cli import completing

F = TypeVar("F", bound=Callable[..., Any])


class Form(click.Choice[str]):
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
        shell_complete=completing.namespaces,
    )(command)


def selection_options(command: F) -> F:
    """Which objects of a kind."""
    command = click.option(
        "--field-selector", default="", metavar="SELECTOR", help="Only with these fields, as in status.phase=Running."
    )(command)
    return click.option(
        "-l", "--selector", default="", metavar="SELECTOR", help="Only with these labels, as in app=web,tier!=cache."
    )(command)
