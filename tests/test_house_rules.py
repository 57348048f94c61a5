"""Rules about the shape of the code: sizes, folders, names, docstrings, Protocols, confined technologies, cycles."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/pykubelet"

FILES = sorted(path for path in SOURCE.rglob("*.py") if "generated" not in path.parts)
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
BANNED_NAMES = {"utils", "util", "helpers", "common", "misc", "base", "core", "impl", "stuff"}

# Folders with one file per kind or per command may hold more than twenty.
ONE_FILE_EACH = {SOURCE / "kinds", SOURCE / "cli"}
# Words that marked the old dialect: metaphors and relative clauses where a noun or a verb of Kubernetes belongs.
OLD_WORDS = re.compile(
    r"\b(nobody|whoever|whatsoever|how-manieth|turned away|the door|complaints?|wishes|strangers?|the truth about)\b",
    re.IGNORECASE,
)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def classes(path: Path) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef))


def length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def is_module(name: str) -> bool:
    path = ROOT / "src" / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def asserting(path: Path) -> set[str]:
    """The functions of a test file that assert something, themselves or through another one of the file."""
    bodies = {function.name: ast.unparse(function) for function in functions(path)}
    found = {name for name, body in bodies.items() if re.search(r"\bassert|raises\(|wait_for\(", body)}
    for _ in bodies:
        found |= {name for name, body in bodies.items() if any(f"{known}(" in body for known in found)}
    return found


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            # Importing a module from its package is not importing what the package's __init__ offers.
            found |= names if all(is_module(name) for name in names) else {node.module, *names}
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_module_is_small_named_and_says_its_job(path: Path) -> None:
    """At most 500 lines, no vague name, a docstring whose first line fits on one line."""
    text = path.read_text()
    assert text.count("\n") <= 500
    assert not BANNED_NAMES & set(path.relative_to(SOURCE).with_suffix("").parts)
    docstring = ast.get_docstring(tree_of(path)) or ""
    first = docstring.partition("\n")[0]
    assert first.endswith((".", ":")), "the docstring's first line states the module's job"
    assert len(first) <= 100
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", text)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_functions_and_classes_are_small(path: Path) -> None:
    """Functions up to 50 lines, classes up to 300, Protocols up to 7 methods, constructors up to 8 collaborators."""
    assert [f.name for f in functions(path) if length(f) > 50] == []
    for found in classes(path):
        methods = [node for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert length(found) <= 300, found.name
        if any("Protocol" in ast.unparse(parent) for parent in found.bases):
            assert len(methods) <= 7, found.name
        for method in methods:
            if method.name == "__init__":
                assert len(method.args.args) + len(method.args.kwonlyargs) - 1 <= 8, found.name


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_test_functions_are_readable(path: Path) -> None:
    """A test up to 60 lines; every test asserts something or expects an error."""
    assert [function.name for function in functions(path) if length(function) > 60] == []
    tests = {function.name for function in functions(path) if function.name.startswith("test_")}
    assert tests - asserting(path) == set(), "asserts nothing"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_loose_tasks_and_no_deep_copies(path: Path) -> None:
    """Tasks belong to a group or a supervisor; frozen values are shared, not copied."""
    text = path.read_text()
    assert "copy.deepcopy" not in text
    if path.parent.name != "aio":
        assert "asyncio.create_task" not in text
        assert "ensure_future" not in text


def test_subprocess_is_confined() -> None:
    """Only the exec credential plugin and the process runtime start processes, and only shims fork."""
    users = [
        name_of(path) for path in FILES if "create_subprocess" in path.read_text() or "subprocess" in imported(path)
    ]
    assert users == ["src/pykubelet/client/exec_plugin.py", "src/pykubelet/runtimes/process/shims.py"]
    forks = [path for path in FILES if re.search(r"\bos\.(fork|exec|posix_spawn|system|popen)", path.read_text())]
    assert {path.parent for path in forks} == {SOURCE / "runtimes/process/shim"}


@pytest.mark.parametrize("path", [path for path in FILES if "msgspec" in imported(path)], ids=name_of)
def test_types_are_registered_before_they_are_decoded(path: Path) -> None:
    """msgspec crashes if two threads first use a type at once, so each goes through `aio.msgspec_types`."""
    calls = [ast.unparse(node) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    typed = [call for call in calls if re.match(r"msgspec\.(convert|\w+\.decode)\(.*", call) and "," in call]
    assert [call for call in typed if "register_type(" not in call] == []


def test_modules_import_each_other_without_cycles() -> None:
    """The import graph of the package has no cycle."""
    modules = {".".join(("pykubelet", *p.relative_to(SOURCE).with_suffix("").parts)): p for p in FILES}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    graph = {name: {m for m in imported(path) if m in modules and m != name} for name, path in modules.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())
