"""`pykubelet check`: validates manifests, or with `--cis` checks a node against the CIS benchmark."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.apply import manifest_texts
from pykubelet.cli.client_command import EXISTING_FILE, FOLDER, print_error
from pykubelet.cli.printers.terminal import escape_terminal

if TYPE_CHECKING:
    from pykubelet.cli.actions.check import CisFinding

_EXAMPLES = """\b
Examples:
  pykubelet check pods/ service.yaml
  helm template ./chart | pykubelet check -
  pykubelet check --cis
  pykubelet check --cis --root-dir /var/lib/pykubelet -o json

It prints nothing if all manifests are valid. Exit codes: 0 no problems, 1 problems found, 2 invalid arguments.
"""


@click.command(epilog=_EXAMPLES)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--cis", is_flag=True, help="Check a node against sections 4.1 and 4.2 of the CIS benchmark instead.")
@click.option(
    "--data-dir", type=FOLDER, default=Path(".pykubelet"), show_default=True, help="Data folder of `pykubelet up`."
)
@click.option("--root-dir", type=FOLDER, help="Root folder of the node; by default `node` in --data-dir.")
@click.option(
    "--kubeconfig", type=EXISTING_FILE, help="Kubeconfig of the node; by default the one it was started with."
)
@click.option("--service-file", type=EXISTING_FILE, help="systemd unit of the node; by default pykubelet.service.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.pass_context
def check(context: click.Context, /, *, paths: tuple[str, ...], cis: bool, output: str, **places: Path | None) -> None:
    """Validate manifests: files, folders of .yaml, .yml and .json files, or - for standard input.

    With --cis, check a running node: its files, and how its API answers without credentials.
    """
    if cis == bool(paths):
        raise click.UsageError("give manifests or --cis" if not cis else "--cis takes no manifests", context)
    if cis:
        _check_node(output, **places)
    else:
        _check_manifests(paths)


def _check_node(
    output: str, *, data_dir: Path | None, root_dir: Path | None, kubeconfig: Path | None, service_file: Path | None
) -> None:
    from pykubelet.aio.clock import SystemClock
    from pykubelet.api.serializer import encode, indented
    from pykubelet.app.settings import CannotStart
    from pykubelet.cli.actions.check import CisPaths, findings, gather_facts, has_failed

    data = (data_dir or Path(".pykubelet")).absolute()
    places = CisPaths(
        root=(root_dir or data / "node").absolute(), data=data, kubeconfig=kubeconfig, service=service_file
    )
    try:
        found = findings(gather_facts(places, SystemClock().now()))
    except CannotStart as error:
        print_error(f"error: {error}")
        sys.exit(1)
    if output == "json":
        click.echo(indented(encode(found)))
    else:
        for finding in found:
            click.echo(_line(finding))
    if has_failed(found):
        sys.exit(1)


def _line(finding: "CisFinding") -> str:
    colour = {"PASS": "green", "FAIL": "red"}.get(finding.verdict)
    verdict = click.style(f"{finding.verdict:<14}", fg=colour)
    advice = f"\n{'':<24}do: {finding.advice}" if finding.advice else ""
    return f"{finding.id:<8} {verdict} {finding.what}: {escape_terminal(finding.seen)}{advice}"


def _check_manifests(paths: tuple[str, ...]) -> None:
    from pykubelet.cli.actions.check import problems_in

    bad = 0
    for origin, data in (text for name in paths for text in manifest_texts(name)):
        problems = [f"{origin}: {data}"] if isinstance(data, str) else [*map(str, problems_in(data, origin))]
        bad += len(problems)
        for problem in problems:
            click.echo(escape_terminal(problem))
    if bad:
        click.echo(f"{bad} {'problem' if bad == 1 else 'problems'} found", err=True)
        raise SystemExit(1)
