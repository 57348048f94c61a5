"""Blocking calls that hang delay neither other calls nor the exit of the program."""

import asyncio
import subprocess
import sys
import threading

import pytest

from pykubelet.app.program import widen_threads


async def test_blocking_calls_that_hang_leave_threads_for_others() -> None:
    """A hundred calls may hang at once, far more than the machine has cores."""
    widen_threads()
    release = threading.Event()
    hung = [asyncio.get_running_loop().run_in_executor(None, release.wait) for _ in range(100)]
    assert await asyncio.to_thread(lambda: "free") == "free"
    release.set()
    assert all(await asyncio.gather(*hung))


@pytest.mark.parametrize("hangs", [False, True])
def test_program_ends_in_time_whatever_hangs(hangs: bool) -> None:
    """A hanging thread does not keep the program from exiting with code 0."""
    program = f"""
import threading
from pykubelet.app.program import exit_after
exit_after(0.2)
if {hangs}:
    threading.Event().wait()
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=15, check=False)
    assert done.returncode == 0
