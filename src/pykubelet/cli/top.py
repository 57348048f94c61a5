"""`pykubelet top`: shows the CPU and memory that nodes or pods use now.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/top/top.go
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from pykubelet.cli import completion
from pykubelet.cli.client_command import epilog, run_with_session, selection_options, server_options

if TYPE_CHECKING:
    from pykubelet.cli.actions.session import ApiSession

_EXAMPLES = epilog(
    "pykubelet top nodes",
    "pykubelet top pods -A --sort-by=memory",
    "pykubelet top pod web --containers",
)
_NODES, _PODS = ("nodes", "node", "no"), ("pods", "pod", "po")


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of nodes or pods."""
    complete = completion.nodes if context.params.get("what") in _NODES else completion.pods
    return complete(context, parameter, incomplete)


@click.command(epilog=_EXAMPLES)
@click.argument("what", type=click.Choice([*_NODES, *_PODS]), metavar="nodes|pods")
@click.argument("name", default="", metavar="[NAME]", shell_complete=_names)
@server_options
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@selection_options
@click.option("--containers", is_flag=True, help="Show each container of a pod.")
@click.option("--sort-by", type=click.Choice(["cpu", "memory"]), help="Sort by usage, the highest first.")
@click.option("--show-capacity", is_flag=True, help="Percentages of the node's capacity, not of what is allocatable.")
@click.option("--no-headers", is_flag=True, help="Omit the header.")
def top(kubeconfig: Path | None, namespace: str, what: str, **options: Any) -> None:
    """Show the CPU and memory that nodes or pods use now.

    The first request after a minute without one takes about a second, the time over which usage is measured.
    """

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.top import TopArguments, show_nodes, show_pods

        arguments = TopArguments(**options)
        return await (show_nodes if what in _NODES else show_pods)(session, arguments)

    run_with_session(main, kubeconfig, namespace)
