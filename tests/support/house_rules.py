"""The rules about the shape of the code, as functions from sources to problems; applied by `tests/test_house_rules.py`.

A rule takes a `Source`, or the list of all of them, and returns descriptions of what is wrong. Nothing is read here, so
that a test can show each rule a source that breaks it.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 50
MAX_TEST_LINES = 60
MAX_CLASS_LINES = 300
MAX_PROTOCOL_METHODS = 7
MAX_COLLABORATORS = 8
MAX_MODULES_IN_FOLDER = 20
MAX_SUMMARY = 100
MIN_DOCSTRING_WORDS = 4

BANNED_NAMES = frozenset({"utils", "util", "helpers", "common", "misc", "base", "core", "impl", "stuff"})
# One file per kind, one per command.
UNBOUNDED_FOLDERS = frozenset({"kinds", "cli"})
# Words of the dialect this code was once written in. The right word is the one a Kubernetes engineer would search for.
OLD_WORDS = re.compile(
    r"\b(nobody|whoever|whomever|how-manieth|turned away|the doors?|complaints?|complains?|wishes|strangers?|"
    r"is told|are told|was told|were told|hears? of|looks? again)\b",
    re.IGNORECASE,
)
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
# A package and the rank of each part of it, from the top; parts of one rank may not import each other.
Layers = tuple[str, dict[str, int]]


@dataclass(frozen=True)
class Source:
    """A module: its path below the package (`kubelet/kubelet.py`) and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        return "pykubelet." + self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def functions(self) -> Iterator[_FUNCTION]:
        return (node for node in ast.walk(self.tree) if isinstance(node, _FUNCTION))

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    @property
    def docstrings(self) -> Iterator[str]:
        nodes = (node for node in ast.walk(self.tree) if isinstance(node, ast.Module | ast.ClassDef | _FUNCTION))
        return (text for node in nodes if (text := ast.get_docstring(node)))


def length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).partition("[")[0] in {"Protocol", "typing.Protocol"} for base in node.bases)


def methods(node: ast.ClassDef) -> list[_FUNCTION]:
    return [member for member in node.body if isinstance(member, _FUNCTION)]


def module_problems(source: Source) -> list[str]:
    """A module is small, has no vague name, and its docstring's first line says what it is."""
    found = []
    if source.lines > MAX_FILE_LINES:
        found.append(f"{source.lines} lines; at most {MAX_FILE_LINES}")
    if vague := BANNED_NAMES & set(source.path.removesuffix(".py").split("/")):
        found.append(f"is called {vague}")
    summary = (ast.get_docstring(source.tree) or "").partition("\n")[0]
    if not summary.endswith((".", ":")) or len(summary) > MAX_SUMMARY:
        found.append(f"the docstring's first line is a sentence of at most {MAX_SUMMARY} characters")
    if re.search(r"\b(TODO|FIXME|XXX)\b", source.text):
        found.append("has a TODO")
    return found


def size_problems(source: Source) -> list[str]:
    """Functions, classes, Protocols and constructors stay below their size limits."""
    found = [
        f"{f.name} has {length(f)} lines; at most {MAX_FUNCTION_LINES}"
        for f in source.functions
        if length(f) > MAX_FUNCTION_LINES
    ]
    for node in source.classes:
        if length(node) > MAX_CLASS_LINES:
            found.append(f"{node.name} has {length(node)} lines; at most {MAX_CLASS_LINES}")
        if is_protocol(node) and len(methods(node)) > MAX_PROTOCOL_METHODS:
            found.append(f"{node.name} has {len(methods(node))} methods; a Protocol at most {MAX_PROTOCOL_METHODS}")
        for method in methods(node):
            taken = len(method.args.args) + len(method.args.kwonlyargs) - 1
            if method.name == "__init__" and taken > MAX_COLLABORATORS:
                found.append(f"{node.name} takes {taken} collaborators; at most {MAX_COLLABORATORS}")
    return found


def short_docstrings(source: Source) -> list[str]:
    """Docstrings of at most three words, which repeat the name or say nothing."""
    return [text for text in source.docstrings if len(text.split()) < MIN_DOCSTRING_WORDS]


def prose_problems(source: Source) -> list[str]:
    """No docstring of three words or fewer, and none of the words of the old dialect in docstrings and comments."""
    found = [f"docstring says nothing: {text!r}" for text in short_docstrings(source)]
    comments = re.findall(r"(?:^|  )#[ :](.*)$", source.text, re.MULTILINE)
    for text in (*source.docstrings, *comments):
        found += [f"{word.group()!r} in: {text.strip().splitlines()[0]}" for word in OLD_WORDS.finditer(text)]
    return found


def task_problems(source: Source) -> list[str]:
    """Tasks belong to a group or a supervisor; frozen values are shared, not copied."""
    found = ["copies deeply"] if "copy.deepcopy" in source.text else []
    if not source.path.startswith("aio/") and re.search(r"asyncio\.create_task|ensure_future", source.text):
        found.append("starts a task that belongs to no group")
    return found


def decoding_problems(source: Source) -> list[str]:
    """msgspec crashes if two threads first use a type at once, so each type goes through `aio.msgspec_types`."""
    calls = [ast.unparse(node) for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    typed = [call for call in calls if re.match(r"msgspec\.(convert|\w+\.decode)\(.*", call) and "," in call]
    return [f"decodes a type that was not registered: {call}" for call in typed if "register_type(" not in call]


_SKIPS = {"pytest.skip", "pytest.importorskip", "pytest.mark.skip", "pytest.mark.skipif"}
FILE_RULES = (module_problems, size_problems, prose_problems, task_problems, decoding_problems)


def test_problems(source: Source) -> list[str]:
    """A test is up to 60 lines long and asserts something or expects an error."""
    found = [
        f"{f.name} has {length(f)} lines; at most {MAX_TEST_LINES}"
        for f in source.functions
        if length(f) > MAX_TEST_LINES
    ]
    bodies = {function.name: ast.unparse(function) for function in source.functions}
    asserting = {name for name, body in bodies.items() if re.search(r"\bassert|raises\(|wait_for\(", body)}
    for _ in bodies:
        asserting |= {name for name, body in bodies.items() if any(f"{known}(" in body for known in asserting)}
    return found + [f"{name} asserts nothing" for name in bodies if name.startswith("test_") and name not in asserting]


def skip_problems(source: Source) -> list[str]:
    """Only `requirements.py` skips tests: it fails them in CI, where a skipped test would hide a missing component."""
    if source.path == "tests/support/requirements.py":
        return []
    attributes = {ast.unparse(node) for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)}
    return [f"{name}: use requirements.py" for name in sorted(attributes & _SKIPS)]


test_problems.__test__ = False  # type: ignore[attr-defined]  # a rule about tests, not a test


def imports(source: Source, known: set[str]) -> set[str]:
    """The modules of ours that a module imports anywhere in its text."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & known or {node.module}
    return (found & known) - {source.name}


def cycles(sources: Sequence[Source]) -> list[str]:
    """The import graph has no cycle."""
    known = {source.name for source in sources}
    graph = {source.name: imports(source, known) for source in sources}
    done: set[str] = set()
    found: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            found.append(" -> ".join((*trail[trail.index(name) :], name)))
        elif name not in done:
            for other in sorted(graph[name]):
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())
    return found


def folder_counts(sources: Sequence[Source]) -> Counter[str]:
    """The number of modules in each folder, except in those with one file per kind or per command."""
    modules = [source for source in sources if not source.path.endswith("__init__.py")]
    return Counter(source.folder for source in modules if source.folder not in UNBOUNDED_FOLDERS)


def crowded_folders(sources: Sequence[Source]) -> list[str]:
    """A folder holds at most 20 modules, unless it has one file per kind or per command."""
    return [
        f"{folder} has {count} modules; at most {MAX_MODULES_IN_FOLDER}"
        for folder, count in folder_counts(sources).items()
        if count > MAX_MODULES_IN_FOLDER
    ]


def repeated_class_names(sources: Sequence[Source]) -> list[str]:
    """A class name is unique in the whole project, unless a comment `# same name:` on its line gives a reason."""
    places = defaultdict(list)
    for source in sources:
        lines = source.text.splitlines()
        for node in source.classes:
            if "# same name:" not in lines[node.lineno - 1]:
                places[node.name].append(source.path)
    return [f"{name} is in {', '.join(paths)}" for name, paths in places.items() if len(paths) > 1]


def needless_protocols(sources: Sequence[Source], layers: Sequence[Layers] = ()) -> list[str]:
    """A Protocol that one class of ours fits, and whose module could import that class, is no boundary."""
    known = {source.name for source in sources}
    graph = {source.name: imports(source, known) for source in sources}
    members = {
        (source.name, node.name): {method.name for method in methods(node)} - {"__init__"} | _fields(node)
        for source in sources
        for node in source.classes
    }
    protocols = [(source.name, node) for source in sources for node in source.classes if is_protocol(node)]
    names = {(module, node.name) for module, node in protocols}
    found = []
    for module, node in protocols:
        needed = members[module, node.name]
        fitting = [key for key, has in members.items() if key not in names and needed and needed <= has]
        if len(fitting) != 1 or any(_is_above(fitting[0][0], module, each) for each in layers):
            continue
        if not _reaches(graph, fitting[0][0], module):
            found.append(f"{module}: {node.name} fits only {fitting[0][1]} of {fitting[0][0]}, which it could import")
    return found


def _is_above(other: str, module: str, layers: Layers) -> bool:
    """Whether the layers forbid the module to import the other one."""
    container, ranks = layers
    parts = [
        name.removeprefix(f"{container}.").split(".")[0] for name in (other, module) if name.startswith(f"{container}.")
    ]
    if len(parts) < 2 or parts[0] == parts[1]:
        return False
    return ranks.get(parts[0], 0) <= ranks.get(parts[1], 0)


def _fields(node: ast.ClassDef) -> set[str]:
    named = {
        part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }
    stores = (part for part in ast.walk(node) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store))
    return named | {part.attr for part in stores if isinstance(part.value, ast.Name) and part.value.id == "self"}


def _reaches(graph: dict[str, set[str]], start: str, end: str) -> bool:
    seen, waiting = {start}, [start]
    while waiting:
        name = waiting.pop()
        if name == end:
            return True
        waiting += graph[name] - seen
        seen |= graph[name]
    return False
