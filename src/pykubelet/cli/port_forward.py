"""`pykubelet port-forward`: forwards local ports to a pod.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/portforward/portforward.go
"""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.client_command import epilog, fail, print_error, run_with_session, server_options
from pykubelet.cli.completion import kinds_or_names

if TYPE_CHECKING:
    from pykubelet.cli.actions.port_forward import Forwarder, PortForwarding
    from pykubelet.cli.actions.session import ApiSession

_EXAMPLES = epilog(
    "pykubelet port-forward web 8080:80",
    "pykubelet port-forward svc/web 8080:http 9090",
    "pykubelet port-forward deploy/web :80         any free port, which is printed",
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
    help="Listening address. Any address but localhost exposes the pod to the network.",
)
def port_forward(target: str, ports: tuple[str, ...], kubeconfig: Path | None, namespace: str, address: str) -> None:
    """Forward local ports to a pod until Ctrl-C. The port of a service is the port of its pods."""
    hosts = [host for word in address.split(",") for host in (_LOOPBACK if word == "localhost" else (word,))]

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.polymorphichelpers import pod_of
        from pykubelet.cli.actions.port_forward import forwarder, parse_port_forwarding

        chosen = await pod_of(session, target)
        owner = chosen.owner if chosen.owner and chosen.owner.get("kind") == "Service" else None
        pairs = [parse_port_forwarding(text, chosen.pod, owner) for text in ports]
        phase = (chosen.pod.get("status") or {}).get("phase", "")
        if phase != "Running":
            fail(f"error: unable to forward port because pod is not running. Current status={phase}")
        opened = forwarder(session, chosen.namespace, chosen.name, say=click.echo, print_error=print_error)
        async with opened as connection, AsyncExitStack() as stack:
            for pair in pairs:
                await _listen(stack, connection, pair, hosts)
            await connection.lost.wait()
        fail("error: lost connection to pod")

    run_with_session(main, kubeconfig, namespace)


async def _listen(stack: AsyncExitStack, connection: "Forwarder", pair: "PortForwarding", hosts: list[str]) -> None:
    """Listen on a port at every address; one address is enough, for example without IPv6."""
    from pykubelet.cli.actions.port_forward import PortForwarding

    local = pair.local
    reasons = []
    for host in hosts:
        try:
            server = await connection.listen(PortForwarding(local, pair.remote), host)
        except OSError as error:
            reasons.append(f"{host}: {error.strerror or error}")
            continue
        stack.callback(server.close)
        local = server.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Forwarding from {shown}:{local} -> {pair.remote}")
    if len(reasons) == len(hosts):
        fail(f"error: unable to listen on port {pair.local}: {'; '.join(reasons)}")
