"""`pykubelet completion`: prints completion scripts, and completes kinds, names and namespaces.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/completion/completion.go,
staging/src/k8s.io/kubectl/pkg/util/completion/completion.go
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pykubelet.cli.actions.session import ApiSession

COMPLETION_SECONDS = 2.0
"""The time limit of a completion."""
Words = list[CompletionItem]
_EXAMPLES = """\b
Examples:
  source <(pykubelet completion bash)                                        for this shell
  pykubelet completion bash > ~/.local/share/bash-completion/completions/pykubelet
  pykubelet completion zsh > "${fpath[1]}/_pykubelet"
  pykubelet completion fish > ~/.config/fish/completions/pykubelet.fish

Exit codes: 0 success, 2 invalid arguments.
"""
_VARIABLE = "_PYKUBELET_COMPLETE"


def kinds_or_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> Words:
    """Complete a kind, then names of its objects; or `kind/name`."""
    before = _words_before(context, parameter)
    if "/" in incomplete:
        kind = incomplete.partition("/")[0]
        return _complete(context, lambda session: _names(session, kind, f"{kind}/"), incomplete)
    if before and "/" not in before[0]:
        return _complete(context, lambda session: _names(session, before[0], ""), incomplete)
    return _complete(context, _kinds, incomplete)


def pods(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Words:
    return _complete(context, lambda session: _names(session, "pods", ""), incomplete)


def nodes(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Words:
    return _complete(context, lambda session: _names(session, "nodes", ""), incomplete)


def namespaces(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Words:
    return _complete(context, lambda session: _names(session, "namespaces", ""), incomplete)


def _words_before(context: click.Context, parameter: click.Parameter) -> tuple[str, ...]:
    given = context.params.get(parameter.name or "") or ()
    return (given,) if isinstance(given, str) else tuple(given)


def _complete(
    context: click.Context, ask: "Callable[[ApiSession], Coroutine[Any, Any, list[str]]]", incomplete: str
) -> Words:
    try:
        words = asyncio.run(_in_time(context, ask))
    except Exception:  # noqa: BLE001  an error message would disturb the command line
        return []
    return [CompletionItem(word) for word in words if word.startswith(incomplete) and word.isprintable()]


async def _in_time(context: click.Context, ask: "Callable[[ApiSession], Coroutine[Any, Any, list[str]]]") -> list[str]:
    from pykubelet.cli.actions.session import open_session

    given = context.params.get("kubeconfig")
    kubeconfig = Path(given) if given else None
    async with asyncio.timeout(COMPLETION_SECONDS):
        async with open_session(kubeconfig, context.params.get("namespace") or "", lambda _: None) as session:
            return await ask(session)


async def _kinds(session: "ApiSession") -> list[str]:
    return sorted({served.resource.plural for served in await session.catalogue() if "list" in served.verbs})


async def _names(session: "ApiSession", word: str, prefix: str) -> list[str]:
    from pykubelet.cli.actions.resource_args import resource_of

    resource = resource_of(word, await session.catalogue()).resource
    found = await session.list(resource, session.namespace)
    return [f"{prefix}{one['metadata']['name']}" for one in found]


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: commands, options, kinds and names of objects."""
    from click.shell_completion import ShellComplete, get_completion_class

    from pykubelet.cli.main import main

    found = get_completion_class(shell)
    assert found is not None
    # click's bash script checks the version of bash, which needs another process; it is left out.
    click.echo(ShellComplete.source(found(main, {}, "pykubelet", _VARIABLE)))
