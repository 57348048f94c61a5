"""Prints the figures of the code's structure as JSON; `scripts/code-metrics` runs it.

With --traced it adds how many modules run on the way of a change; with --check it fails where a limit does not hold.
"""

import json
import statistics
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/pykubelet"
sys.path.insert(0, str(ROOT / "tests/support"))

from house_rules import (  # noqa: E402  the rules live beside the tests
    MAX_FILE_LINES,
    UNBOUNDED_FOLDERS,
    Source,
    folder_counts,
    imports,
    is_protocol,
    short_docstrings,
)

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


def sources() -> list[Source]:
    """Modules written by hand; package docstrings count as no module."""
    paths = sorted(p for p in SOURCE.rglob("*.py") if "generated" not in p.parts and p.name != "__init__.py")
    return [Source(str(path.relative_to(SOURCE)), path.read_text()) for path in paths]


def one_importer_siblings(modules: list[Source]) -> list[str]:
    """Modules that one module of their own folder imports and nothing else, where both fit into one file.

    A kind that only the registry imports, or a command that only `main` names, has its own file by design.
    """
    by_name = {source.name: source for source in modules}
    importers: dict[str, list[Source]] = {name: [] for name in by_name}
    for source in modules:
        for other in imports(source, set(by_name)):
            importers[other].append(source)
    return [
        name
        for name, source in by_name.items()
        if len(importers[name]) == 1
        and source.folder not in UNBOUNDED_FOLDERS
        and source.folder == importers[name][0].folder
        and source.lines + importers[name][0].lines <= MAX_FILE_LINES
    ]


def metrics() -> dict[str, float]:
    modules = sources()
    lines = [source.lines for source in modules]
    classes = [node for source in modules for node in source.classes]
    protocols = sum(map(is_protocol, classes))
    siblings = one_importer_siblings(modules)
    return {
        "modules": len(modules),
        "median_lines": statistics.median(lines),
        "lines": sum(lines),
        "protocols": protocols,
        "protocols_per_module": round(protocols / len(modules), 3),
        "class_names_used_twice": sum(n > 1 for n in Counter(node.name for node in classes).values()),
        "short_docstrings": sum(len(short_docstrings(source)) for source in modules),
        "biggest_folder": max(folder_counts(modules).values()),
        "one_importer_siblings": len(siblings),
        "one_importer_siblings_per_module": round(len(siblings) / len(modules), 3),
    }


# The object model, which the node shares with the API server; every other module that runs in the node's process counts.
_OBJECT_MODEL = ("api/", "kinds/")


def traced() -> dict[str, float]:
    """How many modules of ours run on the way of a change, in real programs."""
    from trace_path import deployment, modules, patch, static_pod

    on_node = modules(static_pod())
    return {
        "static_pod_modules_of_the_node": sum(not name.startswith(_OBJECT_MODEL) for name in on_node),
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
