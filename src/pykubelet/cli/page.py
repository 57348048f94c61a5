"""The options of the page, for every command that serves one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pykubelet.app.settings import PageSettings

Command = TypeVar("Command", bound=Callable[..., Any])


def page_options(*, default_port: int) -> Callable[[Command], Command]:
    """Adds them to a command."""
    port = click.option(
        "--page-port",
        type=click.IntRange(0, 65535),
        default=default_port,
        show_default=True,
        help="The port of the page on loopback; another one if it is taken, 0 takes any free one.",
    )
    page = click.option("--page/--no-page", default=True, show_default=True, help="Serve the page.")
    opened = click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")

    def add(command: Command) -> Command:
        return port(page(opened(command)))

    return add


def page_settings(options: dict[str, Any]) -> "PageSettings | None":
    """What they say, taken out of all options; None for no page."""
    from pykubelet.app.settings import PageSettings

    settings = PageSettings(port=options.pop("page_port"), open_browser=options.pop("open_browser"))
    return settings if options.pop("page") else None
