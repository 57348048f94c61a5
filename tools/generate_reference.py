"""Generates `docs/reference` from the code: commands with options and exit codes, settings, environment, files.

Run `python tools/generate_reference.py` in the development environment. `--check` lists the stale pages and changes
nothing.
"""

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from pykubelet.apiserver.admission.unhandled import UNHANDLED
from pykubelet.app import settings
from pykubelet.cli.main import main as pykubelet
from reference_texts import FILES, VARIABLES

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs/reference"
_NOTE = "Written by `tools/generate_reference.py` from the code; do not edit.\n"
# These are set for containers and pods; our programs do not read them.
_OTHERS = ("runtimes/process/shim/", "kubelet/volumemanager/", "kubelet/kubelet_pods.py")
_READ = re.compile(
    r"\benviron(?:ment)?(?:\.get\(|\.setdefault\(|\[)\"([A-Z_]+)\"|\(\"([A-Z_]+)\",\) if name in os.environ"
)


def commands_page() -> str:
    """The page of all commands, sorted by name."""
    lines = ["# Commands", "", _NOTE]
    lines += ["`pykubelet COMMAND --help` prints the same text. `pykubelet --version` prints the version.", ""]
    for path, command in _commands("pykubelet", pykubelet):
        lines += _command(path, command)
    return "\n".join(lines).rstrip() + "\n"


def unhandled_page() -> str:
    """The page of what `up` stores although nothing acts on it."""
    lines = ["# Stored, but without effect in `pykubelet up`", "", _NOTE]
    lines += [
        "A request that uses one of these is answered with a warning, which kubectl prints and `up` logs for its manifests.",
        "",
    ]
    rows = [(feature.subject, feature.consequence) for feature in UNHANDLED]
    lines += _table(("kind or field", "consequence"), rows)
    return "\n".join(lines).rstrip() + "\n"


def _commands(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group by full name; a lazy group provides them only through `get_command`."""
    context = click.Context(group, info_name=path)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        if command is None:
            sys.exit(f"{path} lists the command {name} but does not have it")
        if command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from _commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def _command(path: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"## {path}", "", f"`{usage}`", "", *_paragraphs(command.help)]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        rows = [_option(option, context) for option in options]
        lines += [*_table(("option", "default", "meaning"), rows), ""]
    lines += _paragraphs(command.epilog)
    return lines


def _paragraphs(text: str | None) -> list[str]:
    """A help text as Markdown; paragraphs that click must not wrap keep their lines."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first == "\b":
            head, *examples = rest.splitlines()
            lines += [head, "", *(f"    {line.strip()}" for line in examples), ""]
        elif paragraph:
            lines += [paragraph, ""]
    return lines


def _option(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" `{_value(option, context)}`"
    default = option.get_default(context, call=False)
    if option.required:
        shown = "needed"
    elif isinstance(default, bool):
        # For a flag with two names, the one that is the default.
        shown = f"`{(option.opts if default else option.secondary_opts)[0]}`" if option.secondary_opts else ""
    else:
        shown = "" if default in (None, "", (), []) or "UNSET" in repr(default).upper() else f"`{default}`"
    return names + value, shown, option.help or ""


def _value(option: click.Option, context: click.Context) -> str:
    kind = option.type
    if isinstance(kind, click.IntRange) and option.metavar is None:
        return f"{kind.min}..{'' if kind.max is None else kind.max}"
    return option.make_metavar(context)


def settings_page() -> str:
    """The settings of each program, what it reads from the environment, and what it leaves on disk."""
    lines = ["# Settings, environment, files", "", _NOTE]
    lines += ["## Settings", ""]
    lines += [
        "Programs that put a node or a server together themselves (`pykubelet.app`) pass these; the command line fills",
        "them from its options. Durations are seconds.",
        "",
    ]
    notes = _field_notes(Path(settings.__file__).read_text())
    for name, each in vars(settings).items():
        if dataclasses.is_dataclass(each) and isinstance(each, type):
            lines += [f"### {name}", "", inspect.cleandoc(each.__doc__ or ""), ""]
            rows = [_field(field, notes.get((name, field.name), "")) for field in dataclasses.fields(each)]
            lines += [*_table(("field", "default", "meaning"), rows), ""]
    lines += ["## Environment", ""]
    lines += [*_table(("variable", "meaning"), [(f"`{name}`", VARIABLES[name]) for name in _variables()]), ""]
    lines += ["## Files", "", "In `--data-dir`, by default `.pykubelet`, which is 0700:", ""]
    lines += _table(("name", "rights", "what it is"), [(f"`{name}`", rights, text) for name, rights, text in FILES])
    return "\n".join(lines).rstrip() + "\n"


def _field(field: "dataclasses.Field[Any]", note: str) -> tuple[str, str, str]:
    if field.default is not dataclasses.MISSING:
        default = "" if field.default in (None, "", ()) else f"`{field.default}`"
    elif field.default_factory is not dataclasses.MISSING:
        made = field.default_factory()
        default = f"`{dict(made)}`" if made else ""
    else:
        default = "needed"
    return f"`{field.name}`", default, note or _help_of(field.name)


def _help_of(name: str) -> str:
    """The command-line help of the option that sets this field."""
    for _, command in _commands("pykubelet", pykubelet):
        for option in command.params:
            if isinstance(option, click.Option) and option.name == name and option.help:
                return option.help
    return ""


def _field_notes(source: str) -> dict[tuple[str, str], str]:
    """The strings below the fields of classes, by class and field."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            for field, below in zip(node.body, node.body[1:], strict=False):
                is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
                    text = ast.literal_eval(below.value)  # type: ignore[attr-defined]
                    found[node.name, field.target.id] = " ".join(text.split())
    return found


def _variables() -> list[str]:
    """The environment variables that the package reads, sorted; each must have a description."""
    package = ROOT / "src/pykubelet"
    sources = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    read = {
        one or other
        for name, path in sources.items()
        if not name.startswith(_OTHERS)
        for one, other in _READ.findall(path.read_text())
    }
    if read != set(VARIABLES):
        sys.exit(f"tools/reference_texts.py: VARIABLES are not those of the code: {sorted(read ^ set(VARIABLES))}")
    return sorted(read)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def main(arguments: list[str]) -> int:
    """Write the pages; with --check only list those that are stale."""
    pages = {TARGET / "commands.md": commands_page(), TARGET / "settings.md": settings_page()}
    pages[TARGET / "without-effect.md"] = unhandled_page()
    stale = {path: text for path, text in pages.items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is stale: run tools/generate_reference.py")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
