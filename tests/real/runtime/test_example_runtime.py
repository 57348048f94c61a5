"""The runtime in docs/write-your-own-runtime.md passes the suite that every runtime must pass."""

import re
from pathlib import Path
from typing import Any

import pytest

from contract.test_runtime import *  # noqa: F403  the whole suite, with this file's fixtures
from pykubelet.runtime.protocol import Runtime

DOCUMENT = Path(__file__).parents[3] / "docs/write-your-own-runtime.md"


def example() -> str:
    """The first block of code in the document."""
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def runtime() -> Runtime:
    names: dict[str, Any] = {}
    exec(compile(example(), str(DOCUMENT), "exec"), names)
    made: Runtime = names["ProcessPerContainer"]()
    return made


@pytest.fixture
def image() -> str:
    return ""


def test_example_is_short() -> None:
    """A runtime of one's own is an afternoon's work: about forty lines that say something."""
    lines = [line for line in example().splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) <= 42
