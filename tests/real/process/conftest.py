"""The process runtime in a folder of its own; processes that a test leaves running are ended after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from process_lab import Lab, make_runtime, stop_everything
from pykubelet.runtimes.process.runtime import ProcessRuntime


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def runtime(root: Path) -> AsyncIterator[ProcessRuntime]:
    async with make_runtime(root) as runtime:
        yield runtime
        await stop_everything(runtime)


@pytest.fixture
def image() -> str:
    return "example/image:1"


@pytest.fixture
def lab(runtime: ProcessRuntime, tmp_path: Path) -> Lab:
    return Lab(runtime, tmp_path)
