"""`pykubelet why`: what was decided about a pod, in order, and what it waits for now.

Exit code 0 if there is such a pod, whatever it waits for; 1 if there is none, or nobody can be asked.
"""

import asyncio
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pykubelet.kubelet.explain.explanation import Explanation
    from pykubelet.kubelet.explain.trail import TrailEntry

_EXAMPLES = """\b
Examples:
  pykubelet why web
  pykubelet why web -n shop -o json | jq -r .waitsFor.step

Exit codes: 0 there is such a pod, whatever it waits for; 1 there is none, or nobody can be asked; 2 the arguments make
no sense.
"""


@click.command(epilog=_EXAMPLES)
@click.argument("pod")
@click.option("-n", "--namespace", default="", metavar="NS", help="The pod's namespace; by default the kubeconfig's.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="How to reach the API server; by default KUBECONFIG, then .pykubelet/admin.kubeconfig.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="For people or programs.")
def why(pod: str, namespace: str, kubeconfig: Path | None, output: str) -> None:
    """Tell what a pod waits for now, what would unblock it, and all that was decided about it.

    A static pod may be called as its manifest calls it.
    """
    from pykubelet.api.errors import ApiError
    from pykubelet.api.serializer import encode, indented
    from pykubelet.app.settings import CannotStart
    from pykubelet.cli.actions.why import why as find_out

    try:
        found = asyncio.run(find_out(kubeconfig, namespace, pod.removeprefix("pod/")))
    except CannotStart as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except ApiError as error:
        click.echo(f"error: {error.message}", err=True)
        sys.exit(1)
    if output == "json":
        click.echo(indented(encode(found)))
        return
    for line in lines(found):
        # Colours are for terminals; click leaves them out elsewhere.
        click.echo(line)


def lines(found: "Explanation") -> Iterator[str]:
    """An explanation for people."""
    blocked = found.waits_for
    where = f" on {found.node}" if found.node else ""
    yield click.style(f"pod {found.namespace}/{found.name}: {found.phase or 'unknown'}{where}", bold=True)
    is_well = blocked.step in {"nothing", "ended"}
    yield f"  waits for  {click.style(_plain(blocked.what), fg='green' if is_well else 'red')}"
    if blocked.unblock:
        yield f"  unblock    {_plain(blocked.unblock)}"
    times = [f"since {_time(blocked.since)}"] if blocked.since else []
    times += [f"until {_time(blocked.until)}"] if blocked.until else []
    if times:
        yield f"  time       {', '.join(times)}"
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
    return f"  {when}  {entry.station:<10} {_plain(entry.what)}{'  ' if facts else ''}{_plain(facts)}{times}"


def _plain(text: str) -> str:
    """What a container said must not move the cursor, nor begin a line of its own."""
    return "".join(sign if sign.isprintable() else " " for sign in text).strip()


def _time(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
