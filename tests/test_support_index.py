"""The index of test support lists every module of tests/support, and nothing else."""

import re
from pathlib import Path

SUPPORT = Path(__file__).parent / "support"


def test_index_lists_every_support_module() -> None:
    listed = set(re.findall(r"`(\w+)\.py`", (SUPPORT / "README.md").read_text()))
    assert listed == {path.stem for path in SUPPORT.glob("*.py")}
