"""`pykubelet logs`: prints or follows the log of a container.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/logs/logs.go
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykubelet.cli.client_command import duration_option, epilog, fail, print_error, run_with_session, server_options
from pykubelet.cli.completion import pods

if TYPE_CHECKING:
    from pykubelet.api.serializer import Document
    from pykubelet.cli.actions.polymorphichelpers import ContainerLog, WriteLog
    from pykubelet.cli.actions.session import ApiSession

_EXAMPLES = epilog(
    "pykubelet logs web",
    "pykubelet logs -f --tail=20 web -c proxy",
    "pykubelet logs deploy/web --since=10m --timestamps",
    "pykubelet logs -l app=web --all-containers --prefix",
    "pykubelet logs -p web                  the run before the last restart",
)
# kubectl's default number of lines of each pod when several are selected.
_TAIL_OF_MANY = 10


@click.command(epilog=_EXAMPLES)
@click.argument("pod", required=False, metavar="[POD | TYPE/NAME]", shell_complete=pods)
@click.argument("container_word", required=False, metavar="[CONTAINER]")
@server_options
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Label selector of pods.")
@click.option("-c", "--container", default="", metavar="NAME", help="Container; by default the first.")
@click.option("--all-containers", is_flag=True, help="All containers of the pod.")
@click.option("-f", "--follow", is_flag=True, help="Follow the log.")
@click.option("-p", "--previous", is_flag=True, help="Log of the previous run of the container.")
@click.option("--tail", type=int, default=-1, metavar="LINES", help="Number of lines from the end.")
@duration_option("--since", "since_seconds", help="Only lines newer than this, as in 10m.")
@click.option(
    "--since-time", default="", metavar="TIME", help="Only lines after this time, as in 2026-01-02T03:04:05Z."
)
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@click.option("--limit-bytes", type=int, default=0, metavar="BYTES", help="Maximum number of bytes.")
@click.option("--prefix", is_flag=True, help="Prefix each line with its pod and container.")
def logs(kubeconfig: Path | None, namespace: str, **options: Any) -> None:
    """Print the log of a container; of a deployment or another owner, the log of one of its pods."""
    if bool(options["pod"]) == bool(options["selector"]):
        raise click.UsageError("give either a pod or, with -l, the labels of pods")
    if options["since_seconds"] and options["since_time"]:
        raise click.UsageError("only one of --since and --since-time is possible")

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.polymorphichelpers import read_logs
        from pykubelet.cli.actions.session import LogRequestOptions, api_error_text

        tail = options["tail"] if options["tail"] >= 0 or not options["selector"] else _TAIL_OF_MANY
        wanted = LogRequestOptions(
            follow=options["follow"],
            previous=options["previous"],
            timestamps=options["timestamps"],
            since_seconds=options["since_seconds"] or None,
            since_time=options["since_time"],
            tail=tail if tail >= 0 else None,
            limit_bytes=options["limit_bytes"] or None,
        )
        chosen = await _chosen(session, options)
        errors = await read_logs(session, chosen, wanted, _writer(with_prefix=options["prefix"]))
        for error in errors:
            print_error(api_error_text(error))
        return 1 if errors else 0

    run_with_session(main, kubeconfig, namespace)


async def _chosen(session: "ApiSession", options: dict[str, Any]) -> "list[ContainerLog]":
    from pykubelet.api.schema import PODS
    from pykubelet.cli.actions.polymorphichelpers import pod_of
    from pykubelet.client.interface import Selection

    container = options["container"] or options["container_word"] or ""
    if options["selector"]:
        found = await session.list(PODS, session.namespace, Selection(options["selector"]))
        if not found:
            click.echo(f"No resources found in {session.namespace} namespace.", err=True)
    else:
        one = await pod_of(session, options["pod"])
        if one.candidates > 1:
            click.echo(f"Found {one.candidates} pods, using pod/{one.name}", err=True)
        found = [one.pod]
    return [log for pod in found for log in _logs_of(pod, container, everything=options["all_containers"])]


def _logs_of(pod: "Document", container: str, *, everything: bool) -> "list[ContainerLog]":
    from pykubelet.cli.actions.polymorphichelpers import ContainerLog, container_names, default_container

    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    if everything:
        return [ContainerLog(namespace, name, one) for one in container_names(pod)]
    if not container:
        container, remark = default_container(pod)
        if remark:
            click.echo(remark, err=True)
    elif container not in container_names(pod):
        fail(f"error: container {container} is not valid for pod {name}")
    return [ContainerLog(namespace, name, container)]


def _writer(*, with_prefix: bool) -> "WriteLog":
    out = sys.stdout.buffer

    def write(log: "ContainerLog", lines: bytes) -> None:
        if with_prefix:
            prefix = f"[pod/{log.pod}/{log.container}] ".encode()
            lines = b"".join(prefix + line for line in lines.splitlines(keepends=True))
        out.write(lines)
        out.flush()

    return write
