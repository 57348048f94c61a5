"""`pykubelet apply`: objects become as manifests say, by server-side apply."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.cli.manifest_files import texts_at
from pykubelet.cli.options import server_options
from pykubelet.cli.talking import complain, epilog, talk

if TYPE_CHECKING:
    from pykubelet.api.manifest import ManifestItem
    from pykubelet.app.commands.applying import Applying
    from pykubelet.app.commands.session import Session

_EXAMPLES = epilog(
    "pykubelet apply -f web.yaml",
    "pykubelet apply -R -f ./manifests -n shop",
    "pykubelet apply -f web.yaml --dry-run=server",
    "cat web.yaml | pykubelet apply -f -",
)


@click.command(epilog=_EXAMPLES)
@click.option(
    "-f", "--filename", "names", multiple=True, required=True, metavar="FILE|DIR|-", help="Manifests; repeatable."
)
@click.option("-R", "--recursive", is_flag=True, help="With folders in folders.")
@server_options
@click.option("--dry-run", type=click.Choice(["none", "server"]), default="none", help="Only ask what would happen.")
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others own.")
@click.option("--field-manager", default="pykubelet", show_default=True, metavar="NAME", help="Who owns the fields.")
@click.option("--server-side", is_flag=True, help="Taken for kubectl's sake: it always is.")
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
    """Make objects be as manifests say: what is missing is created, what is different is changed.

    A document that is wrong is told with file, line and field; the others are applied all the same.
    """
    del server_side

    async def main(session: "Session") -> int:
        from pykubelet.app.commands.applying import Applying
        from pykubelet.kube.command_plans import ApplyOptions

        is_dry = dry_run == "server"
        options = ApplyOptions(field_manager=field_manager, force=force_conflicts, dry_run=is_dry)
        items, is_good = read_items(names, recursive=recursive)
        applying = Applying(session, options)
        for item in items:
            is_good &= await _apply(applying, item, namespace, suffix=" (server dry run)" if is_dry else "")
        return 0 if is_good else 1

    talk(main, kubeconfig, namespace)


def read_items(names: tuple[str, ...], *, recursive: bool) -> "tuple[list[ManifestItem], bool]":
    """The objects of manifests, and whether all of them could be read; what could not is told."""
    from pykubelet.api.manifest import read_each

    items: list[ManifestItem] = []
    is_good = True
    for origin, data in (text for name in names for text in texts_at(name, recursive=recursive)):
        if isinstance(data, str):
            complain(f"{origin}: {data}")
            is_good = False
            continue
        found = read_each(data, origin=origin)
        items += found.items
        is_good &= not found.problems
        for problem in found.problems:
            complain(str(problem))
    return items, is_good


async def _apply(applying: "Applying", item: "ManifestItem", namespace: str, *, suffix: str) -> bool:
    from pykubelet.api.errors import ApiError, NotReached, Unauthorized
    from pykubelet.app.commands.applying import NoSuchKind
    from pykubelet.cli.apply_words import conflict_hint, outcome, refusal_lines
    from pykubelet.cli.object_forms import named

    metadata = item.document.get("metadata") or {}
    if namespace and metadata.get("namespace", namespace) != namespace:
        complain(str(item.problem("metadata.namespace", f'this is not the namespace of --namespace, "{namespace}"')))
        return False
    if not metadata.get("name"):
        complain(str(item.problem("metadata.name", "apply needs a name: an object without one is always another")))
        return False
    try:
        done = await applying.apply(item)
    except NoSuchKind as error:
        complain(str(item.problem("kind", str(error))))
        return False
    except (NotReached, Unauthorized):
        # So it would be with all the others.
        raise
    except ApiError as error:
        for line in [*refusal_lines(item, error), *([hint] if (hint := conflict_hint(error)) else [])]:
            complain(line)
        return False
    name = f"{named(done.served.resource)}/{metadata['name']}"
    click.echo(f"{name} {outcome(done.before, done.after)}{suffix}")
    return True
