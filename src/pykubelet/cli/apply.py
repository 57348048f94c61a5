"""`pykubelet apply`: applies manifests with server-side apply.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/apply/apply.go
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.client_command import epilog, print_error, run_with_session, server_options
from pykubelet.cli.printers.terminal import escape_terminal

if TYPE_CHECKING:
    from pykubelet.api.manifest import ManifestItem
    from pykubelet.cli.actions.apply import ManifestApplier
    from pykubelet.cli.actions.session import ApiSession

_SUFFIXES = (".json", ".yaml", ".yml")
Text = tuple[str, bytes | str]
"""The name of a file and its content, or the reason why it cannot be read."""
_EXAMPLES = epilog(
    "pykubelet apply -f web.yaml",
    "pykubelet apply -R -f ./manifests -n shop",
    "pykubelet apply -f web.yaml --dry-run=server",
    "cat web.yaml | pykubelet apply -f -",
)


def manifest_texts(name: str, *, recursive: bool = False) -> list[Text]:
    """The manifests at a path with their names; the reason instead of the text if one cannot be read."""
    if name == "-":
        return [("standard input", sys.stdin.buffer.read())]
    path = Path(name)
    try:
        files = _files(path, recursive=recursive) if path.is_dir() else [path]
    except OSError as error:
        return [(name, error.strerror or str(error))]
    if not files:
        return [(name, "there is no .yaml, .yml or .json file in this folder")]
    return [(str(file), _read(file)) for file in files]


def _files(folder: Path, *, recursive: bool) -> list[Path]:
    inside = folder.rglob("*") if recursive else folder.iterdir()
    return sorted(found for found in inside if found.suffix in _SUFFIXES and not found.is_dir())


def _read(path: Path) -> bytes | str:
    try:
        return path.read_bytes()
    except OSError as error:
        return error.strerror or str(error)


@click.command(epilog=_EXAMPLES)
@click.option(
    "-f", "--filename", "names", multiple=True, required=True, metavar="FILE|DIR|-", help="Manifests; repeatable."
)
@click.option("-R", "--recursive", is_flag=True, help="Include subfolders.")
@server_options
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    help="Show what would happen without storing it.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields of other managers.")
@click.option(
    "--field-manager", default="pykubelet", show_default=True, metavar="NAME", help="Manager of the applied fields."
)
@click.option(
    "--server-side", is_flag=True, help="Accepted for compatibility with kubectl; apply is always server-side."
)
def apply(
    names: tuple[str, ...],
    *,
    recursive: bool,
    kubeconfig: Path | None,
    namespace: str,
    dry_run: str,
    force_conflicts: bool,
    field_manager: str,
    server_side: bool,
) -> None:
    """Apply manifests to the cluster: create missing objects and update others.

    An invalid document is reported with file, line and field; the others are applied.
    """
    del server_side

    async def main(session: "ApiSession") -> int:
        from pykubelet.cli.actions.apply import ManifestApplier
        from pykubelet.cli.actions.session import ApplyOptions

        is_dry = dry_run == "server"
        options = ApplyOptions(field_manager=field_manager, force=force_conflicts, dry_run=is_dry)
        items, is_good = read_items(names, recursive=recursive)
        applying = ManifestApplier(session, options)
        for item in items:
            is_good &= await _apply(applying, item, namespace, suffix=" (server dry run)" if is_dry else "")
        return 0 if is_good else 1

    run_with_session(main, kubeconfig, namespace)


def read_items(names: tuple[str, ...], *, recursive: bool) -> "tuple[list[ManifestItem], bool]":
    """The objects in manifests, and whether all could be read; problems are printed."""
    from pykubelet.api.manifest import read_each

    items: list[ManifestItem] = []
    is_good = True
    for origin, data in (text for name in names for text in manifest_texts(name, recursive=recursive)):
        if isinstance(data, str):
            print_error(f"{origin}: {data}")
            is_good = False
            continue
        found = read_each(data, origin=origin)
        items += found.items
        is_good &= not found.problems
        for problem in found.problems:
            print_error(str(problem))
    return items, is_good


async def _apply(applying: "ManifestApplier", item: "ManifestItem", namespace: str, *, suffix: str) -> bool:
    from pykubelet.api.errors import ApiError, NotReached, Unauthorized
    from pykubelet.cli.actions.apply import NoSuchKind, conflict_hint, outcome, refusal_lines
    from pykubelet.cli.actions.resource_args import named

    metadata = item.document.get("metadata") or {}
    if namespace and metadata.get("namespace", namespace) != namespace:
        print_error(str(item.problem("metadata.namespace", f'this is not the namespace of --namespace, "{namespace}"')))
        return False
    if not metadata.get("name"):
        print_error(str(item.problem("metadata.name", "apply needs a name: an object without one is always another")))
        return False
    try:
        done = await applying.apply(item)
    except NoSuchKind as error:
        print_error(str(item.problem("kind", str(error))))
        return False
    except (NotReached, Unauthorized):
        # All others would fail in the same way.
        raise
    except ApiError as error:
        for line in [*refusal_lines(item, error), *([hint] if (hint := conflict_hint(error)) else [])]:
            print_error(line)
        return False
    name = f"{named(done.served.resource)}/{metadata['name']}"
    click.echo(f"{escape_terminal(name)} {outcome(done.before, done.after)}{suffix}")
    return True
