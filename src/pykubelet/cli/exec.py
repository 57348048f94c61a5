"""`pykubelet exec`: runs a command in a container and exits with its code.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/exec/exec.go
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.client_command import fail, print_error, run_with_session, server_options
from pykubelet.cli.completion import pods

if TYPE_CHECKING:
    from pykubelet.cli.actions.session import ApiSession

_EXAMPLES = """\b
Examples:
  pykubelet exec web -- date
  pykubelet exec -it web -- sh
  pykubelet exec -i deploy/web -c main -- tar xf - < files.tar

Exit codes: that of the command; 1 if it could not be run, 2 invalid arguments.
"""


@click.command("exec", epilog=_EXAMPLES)
@click.argument("pod", metavar="POD|TYPE/NAME", shell_complete=pods)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@server_options
@click.option("-c", "--container", default="", metavar="NAME", help="Container; by default the first.")
@click.option("-i", "--stdin", is_flag=True, help="Connect standard input.")
@click.option("-t", "--tty", is_flag=True, help="Allocate a terminal.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the output of the command.")
def exec_command(
    pod: str,
    words: tuple[str, ...],
    *,
    kubeconfig: Path | None,
    namespace: str,
    container: str,
    stdin: bool,
    tty: bool,
    quiet: bool,
) -> None:
    """Run a command in a container of a pod."""

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.exec import RemoteCommand, StandardStreams, execute, raw_terminal
        from pykubelet.cli.actions.polymorphichelpers import default_container, pod_of

        chosen = await pod_of(session, pod)
        phase = (chosen.pod.get("status") or {}).get("phase", "")
        if phase in {"Succeeded", "Failed"}:
            fail(f"error: cannot exec into a container in a completed pod; current phase is {phase}")
        where = container
        if not where:
            where, remark = default_container(chosen.pod)
            if remark and not quiet:
                click.echo(remark, err=True)
        has_terminal = tty and stdin and sys.stdin.isatty()
        if tty and not has_terminal:
            click.echo("Unable to use a TTY - input is not a terminal or the right kind of file", err=True)
        command = RemoteCommand(
            namespace=chosen.namespace, pod=chosen.name, container=where, words=words, stdin=stdin, tty=has_terminal
        )
        with raw_terminal() if has_terminal else nullcontext():
            ending = await execute(session, command, StandardStreams())
        if ending.failure:
            print_error(f"error: {ending.failure}")
        elif ending.exit_code and not quiet:
            click.echo(f"command terminated with exit code {ending.exit_code}", err=True)
        return ending.exit_code

    run_with_session(main, kubeconfig, namespace)
