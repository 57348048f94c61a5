"""`pykubelet port-forward`: ports of this machine that lead to a pod."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.completing import kinds_or_names
from pykubelet.cli.options import server_options
from pykubelet.cli.talking import complain, epilog, fail, talk

if TYPE_CHECKING:
    from pykubelet.app.commands.forwarding import Forwarder
    from pykubelet.app.commands.session import Session
    from pykubelet.kube.port_words import Forwarding

_EXAMPLES = epilog(
    "pykubelet port-forward web 8080:80",
    "pykubelet port-forward svc/web 8080:http 9090",
    "pykubelet port-forward deploy/web :80         any free port; it is told which",
)
_LOOPBACK = ("127.0.0.1", "::1")


@click.command("port-forward", epilog=_EXAMPLES)
@click.argument("target", metavar="POD|TYPE/NAME", shell_complete=kinds_or_names)
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@server_options
@click.option(
    "--address",
    default="localhost",
    show_default=True,
    metavar="ADDRESS,...",
    help="Where to listen. Everybody who reaches another address than localhost reaches the pod.",
)
def port_forward(target: str, ports: tuple[str, ...], kubeconfig: Path | None, namespace: str, address: str) -> None:
    """Forward ports of this machine to a pod, until Ctrl-C. A port of a service is that of its pods behind it."""
    hosts = [host for word in address.split(",") for host in (_LOOPBACK if word == "localhost" else (word,))]

    async def main(session: "Session") -> int:
        from pykubelet.app.commands.forwarding import forwarder
        from pykubelet.app.commands.pods import NoPod, pod_of
        from pykubelet.kube.port_words import UnclearPort, forwarding_of

        try:
            chosen = await pod_of(session, target)
            owner = chosen.owner if chosen.owner and chosen.owner.get("kind") == "Service" else None
            pairs = [forwarding_of(text, chosen.pod, owner) for text in ports]
        except NoPod as error:
            fail(f"error: {error}")
        except UnclearPort as error:
            raise click.UsageError(str(error)) from error
        phase = (chosen.pod.get("status") or {}).get("phase", "")
        if phase != "Running":
            fail(f"error: unable to forward port because pod is not running. Current status={phase}")
        made = forwarder(session, chosen.namespace, chosen.name, say=click.echo, complain=complain)
        async with made as way, AsyncExitStack() as stack:
            for pair in pairs:
                await _listen(stack, way, pair, hosts)
            await way.lost.wait()
        fail("error: lost connection to pod")

    talk(main, kubeconfig, namespace)


async def _listen(stack: AsyncExitStack, way: "Forwarder", pair: "Forwarding", hosts: list[str]) -> None:
    """Listen at a port, at every address; one of them is enough where there is no IPv6, say."""
    from pykubelet.kube.port_words import Forwarding

    local = pair.local
    reasons = []
    for host in hosts:
        try:
            server = await way.listen(Forwarding(local, pair.remote), host)
        except OSError as error:
            reasons.append(f"{host}: {error.strerror or error}")
            continue
        stack.callback(server.close)
        local = server.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Forwarding from {shown}:{local} -> {pair.remote}")
    if len(reasons) == len(hosts):
        fail(f"error: unable to listen on port {pair.local}: {'; '.join(reasons)}")
