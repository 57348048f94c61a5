"""The rules of `support/house_rules.py` hold for every module, and each of them can fail."""

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import house_rules
from house_rules import FILE_RULES, Layers, Source

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/pykubelet"
SOURCES = [
    Source(str(path.relative_to(SOURCE)), path.read_text())
    for path in sorted(SOURCE.rglob("*.py"))
    if "generated" not in path.parts
]
TESTS = [Source(str(path.relative_to(ROOT)), path.read_text()) for path in sorted((ROOT / "tests").rglob("*.py"))]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def layers() -> list[Layers]:
    """The layers that import-linter checks, with the rank of each part from the top."""
    return [
        (
            contract["containers"][0],
            {name.strip("() "): rank for rank, row in enumerate(contract["layers"]) for name in re.split("[|:]", row)},
        )
        for contract in CONTRACTS
        if contract["type"] == "layers"
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.path)
def test_module_keeps_the_rules(source: Source) -> None:
    """The rules are about sizes, names, docstrings, plain words, tasks and decoding."""
    assert [problem for rule in FILE_RULES for problem in rule(source)] == []


@pytest.mark.parametrize("source", TESTS, ids=lambda source: source.path)
def test_test_functions_are_readable(source: Source) -> None:
    """A test is up to 60 lines long and asserts something or expects an error."""
    assert house_rules.test_problems(source) == []


@pytest.mark.parametrize("source", TESTS, ids=lambda source: source.path)
def test_tests_are_not_skipped_in_ci(source: Source) -> None:
    """A component that CI lacks is a failure there."""
    assert house_rules.skip_problems(source) == []


def test_modules_import_each_other_without_cycles() -> None:
    """The import graph of the package has no cycle."""
    assert house_rules.cycles(SOURCES) == []


def test_folders_are_small() -> None:
    """A folder has at most 20 modules, except `kinds/` and `cli/` with one file per kind and per command."""
    assert house_rules.crowded_folders(SOURCES) == []


def test_class_names_are_unique() -> None:
    """A name stands for one thing in the whole project."""
    assert house_rules.repeated_class_names(SOURCES) == []


def test_protocols_are_boundaries() -> None:
    """Protocols have two implementations, or stand at an outer boundary, or are one callback upward."""
    assert house_rules.needless_protocols(SOURCES, layers()) == []


def test_subprocess_is_confined() -> None:
    """Only the exec credential plugin, nft and the process runtime start processes; only it and the holder fork."""
    starts = [
        one.path
        for one in SOURCES
        if re.search(r"create_subprocess|^\s*(import|from) subprocess", one.text, re.MULTILINE)
    ]
    assert starts == [
        "client/exec_plugin.py",
        "podnetwork/egress.py",
        "podnetwork/holder_client.py",
        "podnetwork/nft.py",
        "runtimes/process/shims.py",
    ]
    forks = {
        one.path.rpartition("/")[0]
        for one in SOURCES
        if re.search(r"\bos\.(fork|exec|posix_spawn|system|popen)", one.text)
    }
    assert forks == {"podnetwork", "runtimes/process/shim"}


def test_every_runtime_is_protected() -> None:
    """The import contract by which only app.runtimes imports runtimes covers each of them."""
    contract = next(one for one in CONTRACTS if one["type"] == "protected")
    folders = {path.parent.name for path in (SOURCE / "runtimes").glob("*/__init__.py")}
    assert set(contract["protected_modules"]) == {f"pykubelet.runtimes.{name}" for name in folders}


_GOOD = '"""A module that keeps every rule."""\n'
_BROKEN: list[tuple[Callable[[Source], list[str]], str, str]] = [
    (house_rules.module_problems, "a/b.py", _GOOD + "x = 1\n" * 500),
    (house_rules.module_problems, "a/utils.py", _GOOD),
    (house_rules.module_problems, "a/b.py", "x = 1\n"),
    (house_rules.module_problems, "a/b.py", _GOOD + "# TODO\n"),
    (house_rules.size_problems, "a/b.py", "def f():\n" + "    x = 1\n" * 50),
    (house_rules.size_problems, "a/b.py", "class A:\n" + "    x = 1\n" * 300),
    (
        house_rules.size_problems,
        "a/b.py",
        "class A(Protocol):\n" + "".join(f"    def m{i}(self): ...\n" for i in range(8)),
    ),
    (house_rules.size_problems, "a/b.py", "class A:\n    def __init__(self, *, a, b, c, d, e, f, g, h, i): ...\n"),
    (house_rules.prose_problems, "a/b.py", 'def f():\n    """The state."""\n'),
    (house_rules.prose_problems, "a/b.py", _GOOD + "x = 1  # nobody needs it\n"),
    (house_rules.prose_problems, "a/b.py", 'def f():\n    """Tells whoever asked for the state."""\n'),
    (house_rules.task_problems, "a/b.py", "copy.deepcopy(x)\n"),
    (house_rules.task_problems, "a/b.py", "asyncio.create_task(x)\n"),
    (house_rules.decoding_problems, "a/b.py", "msgspec.json.decode(text, type=Pod)\n"),
    (house_rules.test_problems, "a/test_b.py", "def test_nothing():\n    f()\n"),
    (house_rules.skip_problems, "a/test_b.py", "pytest.skip('no mounts')\n"),
    (house_rules.skip_problems, "a/test_b.py", "@pytest.mark.skipif(x, reason='')\ndef test_a(): ...\n"),
    (house_rules.test_problems, "a/test_b.py", "def test_much():\n" + "    assert x\n" * 60),
]


@pytest.mark.parametrize(("rule", "path", "text"), _BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_rule_about_a_module_can_fail(rule: Callable[[Source], list[str]], path: str, text: str) -> None:
    """Each rule finds a problem in a module that breaks it, and none in a good one."""
    assert rule(Source(path, text)) != []
    assert rule(Source("a/b.py", _GOOD)) == []


_PROTOCOL = "class Cat(Protocol):\n    def purr(self): ...\n"
_CLASS = "class Tom:\n    def purr(self): ...\n"


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        (house_rules.cycles, {"a.py": "import pykubelet.b\n", "b.py": "import pykubelet.a\n"}),
        (house_rules.crowded_folders, {f"a/b{i}.py": "" for i in range(21)}),
        (house_rules.repeated_class_names, {"a.py": "class A: ...\n", "b.py": "class A: ...\n"}),
        (house_rules.needless_protocols, {"a.py": _PROTOCOL, "b.py": _CLASS}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_rule_about_the_whole_can_fail(rule: Callable[[Sequence[Source]], list[str]], texts: dict[str, str]) -> None:
    """Each rule finds a problem in a project that breaks it, and none in a good one."""
    assert rule([Source(path, text) for path, text in texts.items()]) != []
    assert rule([Source("a.py", _GOOD)]) == []


def test_protocol_may_be_an_upward_callback() -> None:
    """A Protocol may have only one class if that imports its module or is in a higher layer."""
    sources = [Source("a.py", _PROTOCOL), Source("b.py", "from pykubelet.a import Cat\n" + _CLASS)]
    assert house_rules.needless_protocols(sources) == []
    apart = [Source("low/a.py", _PROTOCOL), Source("high/b.py", _CLASS)]
    assert house_rules.needless_protocols(apart, [("pykubelet", {"high": 0, "low": 1})]) == []
    assert house_rules.needless_protocols(apart, [("pykubelet", {"high": 1, "low": 0})]) != []
