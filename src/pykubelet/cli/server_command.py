"""What commands that serve share: logging and page options, and the start of the program."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykubelet.cli.client_command import PORT
from pykubelet.cli.printers.terminal import escape_terminal

if TYPE_CHECKING:
    from pykubelet.aio.log import Lines
    from pykubelet.app.settings import PageSettings

Command = TypeVar("Command", bound=Callable[..., Any])


def page_options(*, default_port: int) -> Callable[[Command], Command]:
    """Adds the options of the page."""
    port = click.option(
        "--page-port",
        type=PORT,
        default=default_port,
        show_default=True,
        help="Port of the page on loopback; another one if it is taken, 0 takes any free one.",
    )
    page = click.option("--page/--no-page", default=True, show_default=True, help="Serve the page.")
    opened = click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")

    def add(command: Command) -> Command:
        return port(page(opened(command)))

    return add


def page_settings(options: dict[str, Any]) -> "PageSettings | None":
    """Remove the page options and return their settings; None for no page."""
    from pykubelet.app.settings import PageSettings

    settings = PageSettings(port=options.pop("page_port"), open_browser=options.pop("open_browser"))
    return settings if options.pop("page") else None


def pod_network_options(command: Command) -> Command:
    """Adds the options of the network of process pods."""
    network = click.option(
        "--pod-network",
        type=click.Choice(["auto", "own", "host"]),
        default="auto",
        show_default=True,
        help="Network of pods that are processes: one of its own for each, or the machine's; auto takes the first that is "
        "possible.",
    )
    pod_cidr = click.option(
        "--pod-cidr",
        default="",
        metavar="CIDR",
        callback=_ipv4_range,
        help="IPv4 range of the addresses of this node's pods with a network of their own. By default the range that the "
        "cluster has assigned to the node, else 10.244.0.0/24.",
    )
    return network(pod_cidr(command))


def _ipv4_range(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """A range with room for pods; an option callback."""
    from ipaddress import IPv4Network

    if not text:
        return ""
    try:
        found = IPv4Network(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    # Network, gateway and broadcast address are not for pods.
    if found.num_addresses < 4:
        raise click.BadParameter(f"{text} has no address for a pod")
    return str(found)


def start_empty_option(command: Command) -> Command:
    """Adds the option `--new`."""
    text = "Start without objects, which stops the pods of an earlier cluster; its database is kept under another name."
    return click.option("--new", "start_empty", is_flag=True, help=text)(command)


def with_logs(command: Command) -> Command:
    """Adds the logging options that `start` uses."""
    form = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Log format: text, or JSON objects with at, level and message.",
    )
    return click.option("-v", "--verbose", is_flag=True, help="Log details.")(form(command))


def start(
    program: Callable[..., None],
    settings: object,
    *,
    verbose: bool = False,
    log_format: str = "text",
    lines: "Lines | None" = None,
) -> None:
    """Run a program; CannotStart becomes an error line and exit code 1.

    Messages and log lines go to `lines`, by default to standard error.
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
            place.write(f"{escape_terminal(line)}\n")

    try:
        program(settings, say=say)
    except CannotStart as error:
        (log.error if is_json else say)(f"error: {error}")
        sys.exit(1)
    except Exception as error:
        if not is_json:
            raise
        log.error("program failed", error=error)
        sys.exit(1)
