"""`pykubelet why`: explains what a pod waits for and every decision about it, in order."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.client_command import print_error, server_options
from pykubelet.cli.printers.terminal import escape_json

if TYPE_CHECKING:
    from pykubelet.kubelet.explain.explanation import Explanation
    from pykubelet.kubelet.explain.trail import TrailEntry

_EXAMPLES = """\b
Examples:
  pykubelet why web
  pykubelet why web -n shop -o json | jq -r .waitsFor.step

Exit codes: 0 the pod exists, 1 it does not exist or no server answers, 2 invalid arguments.
"""


@click.command(epilog=_EXAMPLES)
@click.argument("pod")
@server_options
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def why(pod: str, namespace: str, kubeconfig: Path | None, output: str) -> None:
    """Explain what a pod waits for, what would unblock it, and every decision about it.

    A static pod may be named as in its manifest.
    """
    from pykubelet.api.errors import ApiError
    from pykubelet.api.serializer import encode, indented
    from pykubelet.app.settings import CannotStart
    from pykubelet.cli.actions.why import why as find_out

    try:
        found = asyncio.run(find_out(kubeconfig, namespace, pod.removeprefix("pod/")))
    except CannotStart as error:
        print_error(f"error: {error}")
        sys.exit(1)
    except ApiError as error:
        print_error(f"error: {error.message}")
        sys.exit(1)
    if output == "json":
        click.echo(escape_json(indented(encode(found)).decode()))
        return
    for line in lines(found):
        # click drops colours where the output is not a terminal.
        click.echo(line)


def lines(found: "Explanation") -> Iterator[str]:
    blocked = found.waits_for
    where = f" on {found.node}" if found.node else ""
    headline = _plain(f"pod {found.namespace}/{found.name}: {found.phase or 'unknown'}{where}")
    yield click.style(headline, bold=True)
    is_well = blocked.step in {"nothing", "ended"}
    yield f"  waits for  {click.style(_plain(blocked.what), fg='green' if is_well else 'red')}"
    if blocked.unblock:
        yield f"  unblock    {_plain(blocked.unblock)}"
    times = [f"since {_time(blocked.since)}"] if blocked.since else []
    times += [f"until {_time(blocked.until)}"] if blocked.until else []
    if times:
        yield f"  time       {', '.join(times)}"
    if found.note:
        yield f"  note       {click.style(_plain(found.note), fg='yellow')}"
    if not found.told_by:
        yield "  (its node was not asked or did not answer: this is what the API server shows)"
    if found.trail:
        yield ""
    beginning = len(found.trail) // 5
    for number, entry in enumerate(found.trail):
        if found.left_out and number == beginning:
            yield click.style(f"  ... {found.left_out} more", dim=True)
        yield _line(entry)


def _line(entry: "TrailEntry") -> str:
    facts = "  ".join(value if name == "said" else f"{name}={value}" for name, value in entry.facts if value)
    times = f"  ({entry.times} times since {_time(entry.at)})" if entry.times > 1 else ""
    when = click.style(_time(entry.last_at or entry.at), dim=True)
    return f"  {when}  {_plain(entry.component):<10} {_plain(entry.what)}{'  ' if facts else ''}{_plain(facts)}{times}"


def _plain(text: str) -> str:
    """Text of a container without control characters and line breaks."""
    return "".join(sign if sign.isprintable() else " " for sign in text).strip()


def _time(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
