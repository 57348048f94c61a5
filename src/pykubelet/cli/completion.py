"""`pykubelet completion`: the script that makes a shell complete words."""

import click

_EXAMPLES = """\b
Examples:
  source <(pykubelet completion bash)                                        for this shell
  pykubelet completion bash > ~/.local/share/bash-completion/completions/pykubelet
  pykubelet completion zsh > "${fpath[1]}/_pykubelet"
  pykubelet completion fish > ~/.config/fish/completions/pykubelet.fish

Exit codes: 0 it worked, 2 the arguments make no sense.
"""
_VARIABLE = "_PYKUBELET_COMPLETE"


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, kinds of resources and names of objects in a shell."""
    from click.shell_completion import ShellComplete, get_completion_class

    from pykubelet.cli.main import main

    found = get_completion_class(shell)
    assert found is not None
    # The scripts of bash come with a look at its version, which takes another process and helps nobody here.
    click.echo(ShellComplete.source(found(main, {}, "pykubelet", _VARIABLE)))
