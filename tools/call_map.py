"""A pytest plugin for `mutate.py`: records which functions each test calls, or runs only the tests in a list.

With CALL_MAP set it writes to that file, as JSON, every test that passed with its seconds of CPU, and every function of
`pykubelet` with the tests that called it. With CHOSEN_TESTS set, a JSON file with the lists `chosen` and `skipped`, it
runs what is in neither list, then the chosen tests in their order. Functions that run in another process are not seen.
"""

import json
import os
import resource
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SOURCE = str(Path(__file__).resolve().parent.parent / "src/pykubelet") + os.sep
MAX_MEMORY = 4 * 2**30
"""A wrong loop must not take the machine's memory."""


class CallRecorder:
    """Records the functions that each test calls, through the trace function of every thread."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._called: set[CodeType] = set()
        self._tests: dict[str, float] = {}
        self._callers: dict[str, array[int]] = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._called = set()
        begun = time.process_time()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self._tests[item.nodeid] = time.process_time() - begun
            if item.nodeid not in self._failed:
                self._add_calls()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        names = [*self._tests]
        passed = {name: round(seconds, 4) for name, seconds in self._tests.items() if name not in self._failed}
        functions = {function: [names[one] for one in tests] for function, tests in self._callers.items()}
        numbers = {name: number for number, name in enumerate(passed)}
        callers = {name: [numbers[one] for one in tests] for name, tests in functions.items()}
        self._output.write_text(json.dumps({"tests": passed, "callers": callers, "failed": sorted(self._failed)}))

    def _add_calls(self) -> None:
        """Adds what the last test has called."""
        number = len(self._tests) - 1
        # Other threads may still add to the set.
        for name in {function_name(code) for code in self._called.copy() if code.co_filename.startswith(SOURCE)}:
            self._callers.setdefault(name, array("I")).append(number)

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        del event, argument
        self._called.add(frame.f_code)


def function_name(code: CodeType) -> str:
    """`path::qualified name` of the function that contains this code, without its lambdas and comprehensions."""
    name = code.co_qualname
    for inner in (".<locals>.<lambda>", ".<locals>.<genexpr>", ".<locals>.<listcomp>", ".<locals>.<setcomp>"):
        name = name.partition(inner)[0]
    return f"{code.co_filename.removeprefix(SOURCE)}::{name.partition('.<locals>.<dictcomp>')[0]}"


def pytest_configure(config: pytest.Config) -> None:
    if "CHOSEN_TESTS" in os.environ:
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    if output := os.environ.get("CALL_MAP"):
        config.pluginmanager.register(CallRecorder(Path(output)))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    if chosen := os.environ.get("CHOSEN_TESTS"):
        lists = json.loads(Path(chosen).read_text())
        places, skipped = {name: place for place, name in enumerate(lists["chosen"])}, set(lists["skipped"])
        wanted = (item for item in items if item.nodeid not in skipped)
        items[:] = sorted(wanted, key=lambda item: places.get(item.nodeid, -1))
