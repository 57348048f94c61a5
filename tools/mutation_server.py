"""A pytest plugin for `mutate.py`: collects all tests once, and tries each change of a function in a fork.

Starting Python and importing everything takes longer than most tests. Requests are lines of JSON, answers are words, on the
two file descriptors in MUTATION_SERVER. An answer is `caught` only if a test fails with the change, soon, and passes
without it. `survived` means that all tests passed, which they may do because an import ran the changed function before.
`unknown` is a change outside functions, or of which it is unclear, or tests that take too long.
"""

import gc
import json
import os
import resource
import select
import signal
from contextlib import suppress
from types import CodeType, FunctionType

import pytest
from _pytest.main import pytest_runtestloop as run_tests

from call_map import MAX_MEMORY

MAX_SECONDS = 60.0
"""How long the tests of a change may take together."""
MAX_TEST_SECONDS = 10.0
"""A single test that took longer may have failed because the machine is busy."""


class MutationServer:
    """Answers requests instead of running the collected tests."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._functions: dict[CodeType, list[FunctionType]] = {}
        self._passes: dict[str, bool] = {}
        self._failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.duration < MAX_TEST_SECONDS:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        gc.collect()
        for one in gc.get_objects():
            if type(one) is FunctionType and "/pykubelet/" in one.__code__.co_filename:
                self._functions.setdefault(one.__code__, []).append(one)
        gc.freeze()
        with os.fdopen(self._requests) as requests, os.fdopen(self._answers, "w") as answers:
            for line in requests:
                answers.write(f"{self._answer(session, items, **json.loads(line))}\n")
                answers.flush()
        return True

    def _answer(
        self, session: pytest.Session, items: dict[str, pytest.Item], *, tests: list[str], old: str, new: str
    ) -> str:
        chosen, changes = [items[name] for name in tests if name in items], self._changes(old, new)
        failed = self._first_failure(session, chosen, changes) if chosen and changes else None
        if not failed:
            return "unknown" if failed is None else "survived"
        if failed not in self._passes:
            self._passes[failed] = self._first_failure(session, [items[failed]], []) == ""
        return "caught" if self._passes[failed] else "unknown"

    def _changes(self, old: str, new: str) -> list[tuple[FunctionType, CodeType]]:
        """The functions whose code changes; empty if something outside functions changes or it is unclear which."""
        before, after = _codes(compile(old, "old", "exec")), _codes(compile(new, "old", "exec"))
        if [code.co_qualname for code in before] != [code.co_qualname for code in after]:
            return []
        changed = {one: other for one, other in zip(before, after, strict=True) if one != other}
        if any(before.count(code) > 1 for code in changed):
            return []
        return [(function, other) for code, other in changed.items() for function in self._functions.get(code, ())]

    def _first_failure(
        self, session: pytest.Session, items: list[pytest.Item], changes: list[tuple[FunctionType, CodeType]]
    ) -> str | None:
        """The first of the tests that fails with these changes; empty if all pass, None if it is unclear."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
            try:
                for function, code in changes:
                    function.__code__ = code
                session.items = items
                run_tests(session)
                os.write(writer, b"\n")
            except session.Failed:
                os.write(writer, f"{self._failed}\n".encode() if self._failed else b"")
            finally:
                os._exit(0)
        os.close(writer)
        ended = select.select([reader], [], [], MAX_SECONDS)[0]
        answer = os.read(reader, 2**16).decode() if ended else ""
        os.close(reader)
        # What the tests started ends with them.
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return answer.removesuffix("\n") if answer else None


def _codes(code: CodeType) -> list[CodeType]:
    """The code of all functions inside, in a fixed order."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return inner + [one for each in inner for one in _codes(each)]


def pytest_configure(config: pytest.Config) -> None:
    requests, answers = map(int, os.environ["MUTATION_SERVER"].split(","))
    config.pluginmanager.register(MutationServer(requests, answers))
