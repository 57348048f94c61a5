"""Prints the figures of the code's structure as JSON; `scripts/code-metrics` runs it.

With --traced it adds how many modules run on the way of a change; with --check it fails where a limit does not hold.
"""

import ast
import json
import statistics
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/pykubelet"
ONE_FILE_EACH = {"kinds", "cli"}  # one file per kind, one per command

# What must hold from now on. Totals grow with features; these ratios must not fall.
LIMITS = {
    "median_lines": (">=", 140),
    "class_names_used_twice": ("<=", 20),
    "short_docstrings": ("<=", 0),
    "biggest_folder": ("<=", 20),
    "protocols_per_module": ("<=", 0.17),
    "one_importer_siblings_per_module": ("<=", 0.06),
    "static_pod_modules_of_the_node": ("<=", 80),
    "patch_modules": ("<=", 60),
}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_name(path: Path) -> str:
    return ".".join(("pykubelet", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def source_files() -> list[Path]:
    """Modules written by hand; package docstrings count as no module."""
    return sorted(p for p in SOURCE.rglob("*.py") if "generated" not in p.parts and p.name != "__init__.py")


def imported_modules(path: Path, known: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & known or {node.module}
    return found & known


def is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).partition("[")[0] in {"Protocol", "typing.Protocol"} for base in node.bases)


def short_docstrings(path: Path) -> list[str]:
    """Docstrings of at most three words: they repeat the name or say nothing."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree_of(path)) if isinstance(node, documented)]
    return [text for text in texts if text and len(text.split()) <= 3]


def one_importer_siblings(files: list[Path]) -> list[str]:
    """Modules that one module of their own folder imports and nothing else, where both fit into one file.

    A kind that only the registry imports, or a command that only `main` names, has its own file by design.
    """
    paths = {module_name(path): path for path in files}
    importers: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        for other in imported_modules(path, set(paths)) - {name}:
            importers[other].add(name)
    lines = {name: path.read_text().count("\n") for name, path in paths.items()}
    return [
        name
        for name, users in importers.items()
        if len(users) == 1
        and paths[name].parent.name not in ONE_FILE_EACH
        and (user := next(iter(users))).rpartition(".")[0] == name.rpartition(".")[0]
        and lines[name] + lines[user] <= 500
    ]


def metrics() -> dict[str, float]:
    files = source_files()
    lines = [path.read_text().count("\n") for path in files]
    classes = [node for path in files for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    folders = Counter(path.parent for path in files if path.parent.name not in ONE_FILE_EACH)
    protocols = sum(is_protocol(node) for node in classes)
    siblings = one_importer_siblings(files)
    return {
        "modules": len(files),
        "median_lines": statistics.median(lines),
        "lines": sum(lines),
        "protocols": protocols,
        "protocols_per_module": round(protocols / len(files), 3),
        "class_names_used_twice": sum(n > 1 for n in Counter(node.name for node in classes).values()),
        "short_docstrings": sum(len(short_docstrings(path)) for path in files),
        "biggest_folder": max(folders.values()),
        "one_importer_siblings": len(siblings),
        "one_importer_siblings_per_module": round(len(siblings) / len(files), 3),
    }


# The packages of the node itself; what it shares with the API server (api, kinds, aio) is not its own.
_NODE = ("kubelet/", "runtimes/", "app/", "client/", "web/")


def traced() -> dict[str, float]:
    """How many modules of ours run on the way of a change, in real programs."""
    from trace_path import deployment, modules, patch, static_pod

    on_node = modules(static_pod())
    return {
        "static_pod_modules_of_the_node": sum(name.startswith(_NODE) for name in on_node),
        "static_pod_modules_in_all": len(on_node),
        "patch_modules": len(modules(patch())),
        "deployment_modules": len(modules(deployment())),
    }


def broken(figures: dict[str, float]) -> list[str]:
    """The limits that these figures break, in words."""
    return [
        f"{name} is {figures[name]}, must be {sign} {limit}"
        for name, (sign, limit) in LIMITS.items()
        if name in figures and (figures[name] < limit if sign == ">=" else figures[name] > limit)
    ]


if __name__ == "__main__":
    found = metrics() | (traced() if "--traced" in sys.argv else {})
    print(json.dumps(found, indent=2))
    if "--check" in sys.argv and (errors := broken(found)):
        sys.exit("\n".join(errors))
