"""Plays the small shell scripts of recorded pods on the simulated runtime: what each does, as data.

From the command of a container it computes the behaviour, and whether a file exists at some moment of a run.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pykubelet.api.generated.core import Container, Pod
from pykubelet.runtimes.protocol import CommandResult, RuntimeContainer, RuntimeFailure
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, SimRuntime
from pykubelet.testing.virtual_time import VirtualClock

# Longer than any grace period: the container has to be killed.
_NEVER = 1e6
_MOMENT = 0.001
_FOREVER = "while true; do sleep 0.1; done"
_STATEMENT = re.compile(r"\s*(?:if \[ -f (?P<file>\S+) \]; then (?P<then>.*?); fi|trap '(?P<trap>[^']*)' TERM|[^;]+)")


@dataclass(slots=True)
class Play:
    """What one run of a script does: which files exist when, how it ends, how it reacts to SIGTERM."""

    files: list[tuple[float, str, bool]] = field(default_factory=list)
    seconds: float = 0.0
    exit_code: int | None = None
    is_endless: bool = False
    stop_seconds: float = _NEVER
    output: list[str] = field(default_factory=list)
    last_words: str = ""

    def has_file(self, path: str, at: float) -> bool:
        """Whether a file exists `at` seconds after the start."""
        there = False
        for when, name, is_made in self.files:
            if name == path and when <= at:
                there = is_made
        return there

    def run(self) -> ContainerRun:
        """The run in the form that the simulated runtime takes."""
        if self.is_endless:
            return ContainerRun()
        return ContainerRun(seconds=self.seconds, exit_code=self.exit_code or 0, message=self.last_words)


def play(script: str, kept: frozenset[str] = frozenset()) -> Play:
    """What a script does if these files exist already."""
    result = Play(files=[(0.0, path, True) for path in sorted(kept)])
    head, endless, _ = script.partition(_FOREVER)
    _perform(head, result)
    if endless and result.exit_code is None:
        result.is_endless = True
    return result


def _perform(script: str, result: Play) -> None:
    for found in _STATEMENT.finditer(script):
        if result.exit_code is not None:
            return
        if found["file"]:
            if result.has_file(found["file"], result.seconds):
                _perform(found["then"], result)
        elif found["trap"] is not None:
            nap = re.match(r"sleep (\d+)", found["trap"])
            result.stop_seconds = float(nap[1]) if nap else (0.0 if found["trap"] else _NEVER)
        else:
            _do(found[0].split(), result)


def _do(words: list[str], result: Play) -> None:
    match words:
        case ["sleep", seconds]:
            result.seconds += float(seconds)
        case ["exit", code]:
            result.exit_code = int(code)
        case ["touch" | "rm" as verb, path]:
            result.files.append((result.seconds, path, verb == "touch"))
        case ["echo", text, ">", "/dev/termination-log"]:
            result.last_words = f"{text}\n"
        case ["echo", *texts]:
            result.output.append(" ".join(texts))
        case [] | ["true"]:
            pass
        case _:
            raise ValueError(f"the play does not know {words}")


def behaviour(container: Container) -> Behaviour:
    """How a container of a recorded pod behaves."""
    match container.command:
        case ("/bin/sh", "-c", script):
            first = play(script)
            # Files that a run leaves in a volume exist in the next run.
            second = play(script, frozenset(path for _, path, _ in first.files if path.startswith("/v/")))
            return Behaviour(
                runs=(first.run(), second.run()), stop_seconds=first.stop_seconds, output=tuple(first.output)
            )
        case (path,):
            problem = f'exec: "{path}": stat {path}: no such file or directory: unknown'
            return Behaviour(
                start_error="failed to create containerd task: failed to create shim task: OCI runtime create failed: "
                f"runc create failed: unable to start container process: {problem}"
            )
        case _:
            return Behaviour()


class ShellCommands:
    """Runs commands in the simulated containers of one pod, which see the files that their scripts have made."""

    def __init__(self, runtime: SimRuntime, pod: Pod) -> None:
        self._runtime, self._clock = runtime, VirtualClock()
        self._scripts = {one.name: one.command[-1] for one in pod.spec.containers if one.command}

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        container = await self._container(container_id)
        kept = frozenset({"/v/x"} if container.attempt else ())
        assert container.started_at is not None
        # A command starts a moment later, so that its order with changes at the same time is fixed.
        at = (self._clock.now() - container.started_at).total_seconds() + _MOMENT
        asked = re.fullmatch(r"test -f (\S+)", command[-1])
        if asked:
            return CommandResult(0 if play(self._scripts[container.name], kept).has_file(asked[1], at) else 1, b"")
        return CommandResult(play(command[-1]).exit_code or 0, b"")

    async def _container(self, container_id: str) -> RuntimeContainer:
        for pod in await self._runtime.pods():
            for container in pod.containers:
                if container.id == container_id:
                    return container
        raise RuntimeFailure(f'container "{container_id}" not found')
