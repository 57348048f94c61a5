"""Makes random small wrong changes to the modules that decide, and prints those that no test notices.

Every change is made in a copy of the tree, never in the tree itself: a comparison, `and` and `or`, a condition, a
number, a statement, swapped or dropped arguments. The tests most likely to notice it run first: those that called the
changed function when all tests ran once (`call_map.py`; this takes minutes and is kept, `--record` does it again), and
tests of the same files that are newer. A change is caught if one of them fails, or does not end in time. Most changes are
caught in a fork of a process that has imported everything (`mutation_server.py`); the others are written to the copy.
"""

import argparse
import ast
import copy
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = (
    "aio/backoff.py aio/queues.py api/*.py api/patch/*.py kinds/**/*.py",
    "apiserver/fieldmanager/*.py apiserver/authorization/*.py apiserver/admission/*.py apiserver/tables/*.py",
    "apiserver/handlers/delete.py apiserver/handlers/eviction.py apiserver/handlers/get.py",
    "apiserver/handlers/options.py apiserver/apiextensions/schema/*.py apiserver/storage/watch_cache.py",
    "client/reflector.py client/event_correlator.py client/leaderelection.py client/indexer.py",
    "controllers/**/*.py scheduler/*.py",
    "kubelet/config/*.py kubelet/pod/*.py kubelet/pod_workers/*.py kubelet/pleg/*.py kubelet/status/*.py",
    "kubelet/kuberuntime/*.py kubelet/eviction/*.py kubelet/lifecycle/*.py kubelet/prober/results.py",
    "kubelet/images/image_gc_manager.py kubelet/nodestatus/conditions.py kubelet/nodeshutdown/*.py",
)
"""The modules whose decisions are changed, below src/pykubelet."""
TESTS = ("tests/unit", "tests/contract", "tests/upstream", "tests/flow")
_TRANSCRIPTS = ("tests/upstream/test_transcripts.py",)
LAST_TESTS = {
    "": ("tests/unit/test_constants.py",),
    "kinds": ("tests/unit/kinds/test_declared_rules.py", "tests/upstream/test_api_resources.py"),
    **dict.fromkeys(("api/", "kinds/", "apiserver/"), _TRANSCRIPTS),
    "kubelet/config/http.py": ("tests/real/test_url_source.py",),
    "kubelet/config/file.py": ("tests/real/test_file_source.py",),
}
"""Run last, by the beginning of a path. The call map does not know what they test: values, or other processes."""
TEST_SECONDS = 20.0
"""Tests are added for one change until they take this much CPU together, as recorded."""
RECORDED_AT_ONCE = 50
"""Test files that are recorded in one run, so that a run that is stopped is continued by the next."""
NO_TESTS = 5
"""The exit code of pytest if it found no test to run."""
START_SECONDS = 120.0
"""A run of tests may take this long and four times the time that its tests took, then it counts as hanging."""
ONE_TEST_SECONDS = 20
"""A single test that takes longer fails; unchanged, each takes a few seconds at most."""
TEST_OPTIONS = ("-o", f"timeout={ONE_TEST_SECONDS}", "--no-header", "--tb=no")
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Their arguments say how something is printed, declared or measured, not what is decided.
_IGNORED_CALLS = {"log", "get_logger", "field", "TypeVar", "cast", "zip", "isinstance", "re", "namedtuple"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One wrong change: the text between two offsets of a file is replaced."""

    path: str
    line: int
    function: str
    """The qualified name of the changed function; empty for code outside functions."""
    start: int
    end: int
    kind: str
    old: str
    new: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


class MutationFinder(ast.NodeVisitor):
    """Finds every possible mutation of one module."""

    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._path, self._source = path, source
        self._scope: list[tuple[str, bool]] = []
        self._ends: set[ast.stmt] = set()
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _offsets(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        comma = re.match(rb"\s*,", self._source[end:]) if isinstance(node, ast.keyword) else None
        return start, end + (comma.end() if comma else 0)

    def _add(self, kind: str, node: ast.expr | ast.stmt | ast.keyword, new: ast.AST | str) -> None:
        start, end = self._offsets(node)
        text = new if isinstance(new, str) else ast.unparse(new)
        # A changed expression keeps the place that its brackets gave it.
        text = f"({text})" if isinstance(node, ast.expr) and not isinstance(new, str) else text
        function, qualified = "", []
        for name, is_function in self._scope:
            qualified.append(name)
            if is_function:
                function = ".".join(qualified)
                qualified.append("<locals>")
        old = self._source[start:end].decode()
        self.found.append(Mutation(self._path, node.lineno, function, start, end, kind, old, text))

    def _inside(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, *, is_function: bool) -> None:
        self._scope.append((node.name, is_function))
        if is_function and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self.visit(default)
        self._ends.add(node.body[-1])
        for statement in node.body:
            self.visit(statement)
        self._scope.pop()

    # Decorators, annotations and base classes are not visited.
    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = {ast.unparse(base) for base in node.bases}
        if "Protocol" not in bases:
            self._inside(node, is_function=False)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node, is_function=True)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inside(node, is_function=True)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """The parts of an f-string have no usable positions before Python 3.12."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Assertions narrow types."""

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[place] = _OPPOSITES[type(operator)]()
            self._add("comparison", node, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._add("and/or", node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add("negation", node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add | ast.Sub):
            self._add("arithmetic", node, ast.BinOp(node.left, _other_sign(node.op), node.right))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        # Other conditions are changed where they are visited.
        if not isinstance(node.test, ast.Compare | ast.UnaryOp | ast.NamedExpr):
            self._add("negation", node.test, ast.UnaryOp(ast.Not(), node.test))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add("swapped", node, ast.IfExp(node.test, node.orelse, node.body))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, repr(not node.value))
        elif isinstance(node.value, int | float):
            self._add("constant", node, repr(node.value + 1))

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if name.partition(".")[0] in _IGNORED_CALLS:
            return
        if name in _CALLS:
            self._add("min/max/any/all", node.func, _CALLS[name])
        if name not in _CALLS and len(node.args) == 2 and not any(isinstance(one, ast.Starred) for one in node.args):
            self._add("swapped", node, ast.Call(node.func, node.args[::-1], node.keywords))
        for keyword in node.keywords:
            if keyword.arg is not None:
                self._add("dropped argument", keyword, "")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add("return", node, "return None")
        elif node not in self._ends:
            # At its end a function returns None anyway.
            self._add("statement", node, "pass")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if not isinstance(value, ast.Call) or not self._scope:
            self.generic_visit(node)
        elif ast.unparse(value.func).partition(".")[0] != "log":
            self._add("statement", node, "pass")
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add("statement", node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add("statement", node, "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("statement", node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._add("statement", node, "pass")


def _other_sign(operator: ast.operator) -> ast.operator:
    return ast.Sub() if isinstance(operator, ast.Add) else ast.Add()


def all_mutations(root: Path, patterns: Sequence[str]) -> list[Mutation]:
    """Every mutation of the modules that match, in a fixed order."""
    source = root / "src/pykubelet"
    paths = {path for pattern in patterns for path in source.glob(pattern) if "generated" not in path.parts}
    found: list[Mutation] = []
    for path in sorted(paths):
        text = path.read_bytes()
        finder = MutationFinder(str(path.relative_to(source)), text)
        finder.visit(ast.parse(text))
        found += finder.found
    return found


def copy_tree(folder: Path) -> None:
    """Makes the folder equal to the files of the tree that git knows or would add."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    wanted = {name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()}
    for name in ("src", "tests", "tools"):
        for path in [*(folder / name).rglob("*")]:
            if path.is_file() and str(path.relative_to(folder)) not in wanted:
                path.unlink()
    for name in wanted:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)


def sample(mutations: Sequence[Mutation], count: int, choice: random.Random) -> list[Mutation]:
    """Chooses equally many of each kind, because the frequent kinds are those that are easiest to notice."""
    kinds: dict[str, list[Mutation]] = {}
    for one in mutations:
        kinds.setdefault(one.kind, []).append(one)
    for left in kinds.values():
        choice.shuffle(left)
    chosen: list[Mutation] = []
    while len(chosen) < count and any(kinds.values()):
        chosen += [left.pop() for left in kinds.values() if left]
    return chosen[:count]


class CallMap:
    """Which tests call which function, from a run of all tests in a copy of the tree; kept in a file."""

    def __init__(self, kept: Path) -> None:
        known = json.loads(kept.read_text()) if kept.exists() else {"files": [], "tests": {}, "callers": {}}
        self._kept = kept
        self._files: list[str] = known["files"]
        self._seconds: dict[str, float] = known["tests"]
        self._callers: dict[str, list[int]] = known["callers"]
        self._names = [*self._seconds]
        self._breadth = [0] * len(self._names)

    def record(self, tree: Path, environment: dict[str, str]) -> None:
        """Runs the test files that are not in the map yet, and keeps the map after each few of them."""
        found = (path.relative_to(tree) for part in TESTS for path in sorted((tree / part).rglob("test_*.py")))
        if new := [str(path) for path in found if str(path) not in self._files]:
            print(f"recording which functions {len(new)} test files call", file=sys.stderr, flush=True)
        for start in range(0, len(new), RECORDED_AT_ONCE):
            self._record(new[start : start + RECORDED_AT_ONCE], tree, environment)
        for test in itertools.chain.from_iterable(self._callers.values()):
            self._breadth[test] += 1

    def _record(self, files: list[str], tree: Path, environment: dict[str, str]) -> None:
        part = tree / "call-map.json"
        command = (sys.executable, "-m", "pytest", "-q", "-p", "call_map", "-p", "no:cacheprovider", *files)
        with (tree / "call-map.log").open("a") as log:
            subprocess.run(
                (*command, "-o", "timeout=600"), cwd=tree, env={**environment, "CALL_MAP": str(part)},
                stdout=log, stderr=log, check=False,
            )  # fmt: skip
        found = json.loads(part.read_text())
        if found["failed"]:
            print(
                f"not used, since they fail or are skipped: {', '.join(found['failed'])}", file=sys.stderr, flush=True
            )
        for function, tests in found["callers"].items():
            self._callers.setdefault(function, []).extend(len(self._names) + test for test in tests)
        self._seconds |= found["tests"]
        self._names += found["tests"]
        self._breadth += [0] * len(found["tests"])
        self._files += files
        self._kept.write_text(json.dumps({"files": self._files, "tests": self._seconds, "callers": self._callers}))

    def skipped(self, chosen: Sequence[str]) -> list[str]:
        """The known tests in the same files. Tests in none of the two lists are newer than the map."""
        files = {test.partition("::")[0] for test in chosen}
        return [name for name in {*self._names}.difference(chosen) if name.partition("::")[0] in files]

    def of_file(self, file: str) -> list[str]:
        return [name for name in self._names if name.startswith(f"{file}::")]

    def tests(self, mutation: Mutation) -> tuple[list[str], float]:
        """The tests that call the function, the narrowest first, then others of its module; and their seconds."""
        # Code outside functions mostly declares something, with lambdas that are called where it is used.
        of_function = self._callers.get(f"{mutation.path}::{mutation.function or '<lambda>'}", [])
        of_module = {
            test for name, tests in self._callers.items() if name.startswith(f"{mutation.path}::") for test in tests
        }
        ranked = [*self._by_file(of_function), *self._by_file(of_module.difference(of_function))]
        chosen, total = [], 0.0
        for test in ranked:
            seconds = self._seconds[self._names[test]] + 0.003
            if total + seconds <= TEST_SECONDS:
                chosen.append(self._names[test])
                total += seconds
        return chosen, total

    def _by_file(self, tests: "Sequence[int] | set[int]") -> list[int]:
        """The tests of one file stay together, so that its fixtures are made once."""
        files: dict[str, list[int]] = {}
        for test in sorted(tests, key=lambda one: (self._breadth[one], one)):
            files.setdefault(self._names[test].partition("::")[0], []).append(test)
        return [test for file in files.values() for test in file]


class Tree:
    """A copy of the tree in which one mutation at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        copy_tree(folder)
        paths = os.pathsep.join(str(folder / name) for name in ("src", "tools"))
        self.environment = {**os.environ, "PYTHONPATH": paths, "CI": "1", "PYTHONDONTWRITEBYTECODE": ""}

    def start_server(self) -> None:
        """Starts a process that has imported everything and tries changes in forks."""
        (reader, requests), (answers, writer) = os.pipe(), os.pipe()
        command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "mutation_server", "-p", "no:cacheprovider")
        options = ("--continue-on-collection-errors", f"--basetemp={self.folder / 'tests-temp'}", *TEST_OPTIONS, *TESTS)
        self._server = subprocess.Popen(
            (*command, *options), cwd=self.folder, env={**self.environment, "MUTATION_SERVER": f"{reader},{writer}"},
            pass_fds=(reader, writer), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reader)
        os.close(writer)
        self._requests, self._answers = os.fdopen(requests, "w"), os.fdopen(answers)

    def stop_server(self) -> None:
        self._requests.close()
        self._answers.close()
        self._server.wait()

    def _is_caught_in_fork(self, tests: list[str], original: bytes, changed: bytes) -> bool:
        request = {"tests": tests, "old": original.decode(), "new": changed.decode()}
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        return self._answers.readline() == "caught\n"

    def outcome(self, mutation: Mutation, calls: CallMap) -> str:
        """`caught`, `hangs`, `survived`, `too slow`, or `not called` if no test calls the function."""
        called, seconds = calls.tests(mutation)
        last = [file for begin, files in LAST_TESTS.items() if mutation.path.startswith(begin) for file in files]
        tests = [*dict.fromkeys((*called, *(test for file in last for test in calls.of_file(file))))]
        path = self.folder / "src/pykubelet" / mutation.path
        original = path.read_bytes()
        changed = mutation.apply(original)
        if self._is_caught_in_fork(tests, original, changed):
            return "caught"
        (self.folder / "chosen").write_text(json.dumps({"chosen": tests, "skipped": calls.skipped(tests)}))
        files = [*dict.fromkeys((*(test.partition("::")[0] for test in tests), *last))]
        with _replaced(path, changed, original):
            begun = time.monotonic()
            outcome = self._run(files, START_SECONDS + 4 * seconds)
        # On a busy machine the tests may take too long without the change as well.
        if (
            _is_caught(outcome)
            and time.monotonic() - begun > ONE_TEST_SECONDS
            and _is_caught(self._run(files, START_SECONDS + 4 * seconds))
        ):
            return "too slow"
        return outcome if called or _is_caught(outcome) else "not called"

    def _run(self, files: Sequence[str], seconds: float) -> str:
        command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "call_map", "-p", "no:cacheprovider")
        with subprocess.Popen(
            (*command, *TEST_OPTIONS, *files), cwd=self.folder,
            env={**self.environment, "CHOSEN_TESTS": str(self.folder / "chosen")},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                return "survived" if process.wait(seconds) in (0, NO_TESTS) else "caught"
            except subprocess.TimeoutExpired:
                return "hangs"
            finally:
                # What the tests started ends with them.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _replaced(path: Path, changed: bytes, original: bytes) -> Iterator[None]:
    """Replaces a source file for a while.

    Its bytecode goes as well: it is found by the time in seconds and the size of its source, which two changes may share.
    """
    bytecode = Path(cache_from_source(str(path)))
    bytecode.unlink(missing_ok=True)
    try:
        path.write_bytes(changed)
        yield
    finally:
        path.write_bytes(original)
        bytecode.unlink(missing_ok=True)


def _is_caught(outcome: str) -> bool:
    return outcome in ("caught", "hangs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that are tested at the same time")
    parser.add_argument("--only", nargs="*", default=(), metavar="GLOB", help="modules, below src/pykubelet")
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutate", help="where the copies and the call map are")
    parser.add_argument("--record", action="store_true", help="record again which tests call which functions")
    parser.add_argument("--list", action="store_true", help="print the mutations and try none")
    options = parser.parse_args()
    patterns = options.only or [pattern for line in DECISIONS for pattern in line.split()]
    everything = all_mutations(ROOT, patterns)
    chosen = sample(everything, options.count, random.Random(options.seed))
    print(f"seed {options.seed}: {len(chosen)} of {len(everything)} possible changes", file=sys.stderr, flush=True)
    if options.list:
        print("\n".join(_line(one) for one in chosen))
        return 0
    if options.record:
        (options.folder / "call-map.json").unlink(missing_ok=True)
    print(json.dumps(try_all(chosen, options.folder.resolve(), options.jobs) | {"seed": options.seed}, indent=2))
    return 0


def try_all(chosen: Sequence[Mutation], folder: Path, jobs: int) -> dict[str, object]:
    """Tries the mutations in as many copies of the tree as `jobs`; returns figures and survivors."""
    begun = time.monotonic()
    trees: SimpleQueue[Tree] = SimpleQueue()
    first = Tree(folder / "0")
    calls = CallMap(folder / "call-map.json")
    calls.record(first.folder, first.environment)
    for tree in (first, *(Tree(folder / str(number)) for number in range(1, jobs))):
        tree.start_server()
        trees.put(tree)

    def attempt(mutation: Mutation) -> str:
        tree = trees.get()
        try:
            found = tree.outcome(mutation, calls)
        finally:
            trees.put(tree)
        print(f"{found}: {_line(mutation)}", file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(jobs) as threads:
        outcomes = [*threads.map(attempt, chosen)]
    while not trees.empty():
        trees.get().stop_server()
    caught = sum(map(_is_caught, outcomes))
    survivors = [
        asdict(one) | {"outcome": found} for one, found in zip(chosen, outcomes, strict=True) if not _is_caught(found)
    ]
    return {
        "mutations": len(chosen),
        "caught": caught,
        "caught_percent": round(100 * caught / max(1, len(chosen)), 1),
        "hanging": outcomes.count("hangs"),
        "seconds": round(time.monotonic() - begun),
        "survivors": survivors,
    }


def _line(mutation: Mutation) -> str:
    old, new = (" ".join(text.split()) for text in (mutation.old, mutation.new))
    return f"src/pykubelet/{mutation.path}:{mutation.line}: {mutation.kind}: {old}  ->  {new}"


if __name__ == "__main__":
    raise SystemExit(main())
