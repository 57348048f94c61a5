"""The mutations that `scripts/mutate` makes."""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MODULE = '''"""A module."""

LIMIT = 5


@cache(maxsize=7)
class Rules:
    kept: int = 3

    def decide(self, one: int | None = 4, *, strict: bool = True) -> int:
        assert one != 9
        if not self.open:
            raise ValueError(f"{one + 1}")
        log.info("decided", one=one)
        if one < 2 and self.check(one, self.kept, why="é"):
            return pick(one, strict)

        def inner() -> None:
            self.done(1 if strict else 2)

        return min(one, LIMIT)


def first(rows: list[int]) -> int | None:
    for row in rows:
        if not row:
            return None
        return row
    return None
'''


@pytest.fixture(scope="module")
def mutate() -> Any:
    """Imports the module from the folder of the tools, which is not a package."""
    sys.path.append(str(ROOT / "tools"))
    try:
        import mutate
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return mutate


def test_finder_changes_decisions_and_nothing_else(mutate: Any) -> None:
    """Texts, annotations, decorators, assertions and log lines stay."""
    source = MODULE.encode()
    finder = mutate.MutationFinder("rules.py", source)
    finder.visit(ast.parse(source))
    found = [(one.line, one.function, one.kind, one.new) for one in finder.found]
    assert found == [
        (3, "", "constant", "6"),
        (8, "", "constant", "4"),
        (10, "Rules.decide", "constant", "5"),
        (10, "Rules.decide", "constant", "False"),
        (12, "Rules.decide", "negation", "(self.open)"),
        (13, "Rules.decide", "statement", "pass"),
        (15, "Rules.decide", "negation", "(not (one < 2 and self.check(one, self.kept, why='é')))"),
        (15, "Rules.decide", "and/or", "(one < 2 or self.check(one, self.kept, why='é'))"),
        (15, "Rules.decide", "comparison", "(one <= 2)"),
        (15, "Rules.decide", "constant", "3"),
        (15, "Rules.decide", "swapped", "(self.check(self.kept, one, why='é'))"),
        (15, "Rules.decide", "dropped argument", ""),
        (16, "Rules.decide", "return", "return None"),
        (16, "Rules.decide", "swapped", "(pick(strict, one))"),
        (19, "Rules.decide.<locals>.inner", "statement", "pass"),
        (19, "Rules.decide.<locals>.inner", "swapped", "(2 if strict else 1)"),
        (19, "Rules.decide.<locals>.inner", "constant", "2"),
        (19, "Rules.decide.<locals>.inner", "constant", "3"),
        (21, "Rules.decide", "return", "return None"),
        (21, "Rules.decide", "min/max/any/all", "max"),
        (26, "first", "negation", "(row)"),
        (27, "first", "statement", "pass"),
        (28, "first", "return", "return None"),
    ]
    for one in finder.found:
        changed = one.apply(source)
        assert changed != source
        ast.parse(changed)


def test_sample_is_repeatable_and_takes_all_kinds(mutate: Any) -> None:
    everything = mutate.all_mutations(ROOT, ["kinds/pod/*.py", "scheduler/*.py"])
    first, second = (mutate.sample(everything, 50, mutate.random.Random(7)) for _ in range(2))
    assert first == second
    assert len(first) == 50
    assert {one.kind for one in first} == {one.kind for one in everything}
    assert mutate.sample(everything, 50, mutate.random.Random(8)) != first


def test_patterns_of_decisions_all_find_modules(mutate: Any) -> None:
    for pattern in (pattern for line in mutate.DECISIONS for pattern in line.split()):
        assert [*(ROOT / "src/pykubelet").glob(pattern)], pattern
    for begin, files in mutate.LAST_TESTS.items():
        assert (ROOT / "src/pykubelet" / begin).exists()
        assert files
        assert all((ROOT / file).exists() for file in files)
