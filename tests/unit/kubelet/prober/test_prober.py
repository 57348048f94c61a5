"""One run of a probe and the events it emits."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from pykubelet.api.generated.core import (
    ContainerPort,
    EnvVar,
    EnvVarSource,
    ExecAction,
    HTTPGetAction,
    HTTPHeader,
    ObjectReference,
    PodStatus,
    Probe,
    TCPSocketAction,
)
from pykubelet.httpserver.http_client import Headers
from pykubelet.kubelet.prober.http_probe import HttpProbeError, HttpProbeResponse
from pykubelet.kubelet.prober.prober import Prober
from pykubelet.kubelet.prober.results import ProbedContainer
from pykubelet.kubelet.prober.tcp_probe import ProbeError, ProbeState
from pykubelet.kubelet.types import ProbeOutcome, ProbeType
from pykubelet.runtimes.protocol import CommandResult, RuntimeFailure
from pykubelet.testing.build import container, pod

T = TypeVar("T")
STATUS = PodStatus(pod_ip="10.0.0.1")


class World:
    """Fakes of the command runner, the HTTP server and the event recorder."""

    def __init__(self) -> None:
        self.outcomes: list[CommandResult | Exception] = []
        self.takes_seconds = 0.0
        self.answers: list[HttpProbeResponse | Exception] = []
        self.commands: list[tuple[str, tuple[str, ...], float | None]] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.events: list[tuple[str, str, str, str]] = []
        self.prober = Prober(commands=self, http=self, recorder=self)

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        self.commands.append((container_id, tuple(command), timeout_seconds))
        await asyncio.sleep(self.takes_seconds)
        return _taken(self.outcomes)

    async def get(self, url: str, headers: Headers, *, deadline: float) -> HttpProbeResponse:
        self.requests.append((url, dict(headers)))
        return _taken(self.answers)

    async def close(self) -> None:
        """There is nothing to close."""

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.events.append((event_type, reason, message, involved.field_path))

    async def probe(self, probe: Probe, kind: ProbeType = ProbeType.LIVENESS, **fields: Any) -> ProbeOutcome | None:
        probed = container("c", **fields)
        subject = ProbedContainer(pod=pod(containers=[probed]), container=probed, kind=kind, probe=probe)
        return await self.prober.probe(subject, STATUS, "cri://id")


def _taken(script: list[T | Exception]) -> T:
    taken = script.pop(0)
    if isinstance(taken, Exception):
        raise taken
    return taken


@pytest.fixture
def world() -> World:
    return World()


def command(*words: str, **fields: Any) -> Probe:
    return Probe(exec=ExecAction(command=words), timeout_seconds=2, **fields)


async def test_command_gets_literal_variables_and_the_runtime_its_own_id(world: World) -> None:
    """A variable with a valueFrom source is empty; an unknown name stays unexpanded."""
    world.outcomes = [CommandResult(0, b"")]
    env = (EnvVar(name="A", value="a"), EnvVar(name="S", value_from=EnvVarSource()))
    assert await world.probe(command("$(A)", "$(S)", "$$(A)", "$(B)"), env=env) == ProbeOutcome.SUCCESS
    assert world.commands == [("id", ("a", "", "$(A)", "$(B)"), 2)]
    assert world.events == []


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (CommandResult(1, b"it is \xff broken"), "it is \ufffd broken"),
        (TimeoutError(), 'command timed out: "check it" timed out after 2s'),
        (CommandResult(3, b""), ""),
    ],
    ids=["exit 1", "timeout", "silent"],
)
async def test_failed_command_emits_upstreams_event(
    world: World, outcome: CommandResult | Exception, words: str
) -> None:
    """The event is on the container."""
    world.outcomes = [outcome]
    assert await world.probe(command("check", "it"), ProbeType.READINESS) == ProbeOutcome.FAILURE
    assert world.events == [("Warning", "Unhealthy", f"Readiness probe failed: {words}", "spec.containers{c}")]


async def test_probe_that_cannot_run_is_tried_three_times_and_has_no_result(world: World) -> None:
    """One event is emitted for all attempts."""
    world.outcomes = [RuntimeFailure("no such container")] * 3
    assert await world.probe(command("x"), ProbeType.STARTUP) is None
    assert len(world.commands) == 3
    message = "Startup probe errored and resulted in unknown state: no such container"
    assert [event[:3] for event in world.events] == [("Warning", "Unhealthy", message)]


async def test_second_try_counts(world: World) -> None:
    """The first error emits no event."""
    world.outcomes = [RuntimeFailure("busy"), CommandResult(0, b"")]
    assert await world.probe(command("x")) == ProbeOutcome.SUCCESS
    assert world.events == []


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (Probe(), "missing probe handler for web_default(uid-default-web):c"),
        (Probe(http_get=HTTPGetAction(port="nope")), 'strconv.Atoi: parsing "nope": invalid syntax'),
        (Probe(tcp_socket=TCPSocketAction(port=0)), "invalid port number: 0"),
    ],
    ids=["nothing", "named port", "port 0"],
)
async def test_invalid_probe_is_an_error(world: World, probe: Probe, words: str) -> None:
    """Validation rejects all of these; a static pod of an older version might still have them."""
    assert await world.probe(probe) is None
    assert world.events[0][2] == f"Liveness probe errored and resulted in unknown state: {words}"


async def test_exec_is_an_error_when_the_runtime_runs_no_commands(world: World) -> None:
    """It is not a failure of the container."""
    world.prober = Prober(commands=None, http=world, recorder=world)
    assert await world.probe(command("x")) is None
    assert "cannot run commands" in world.events[0][2]


async def test_http_probe_asks_the_pod_by_named_port_with_its_headers(world: World) -> None:
    """The host is the pod's address unless the probe names one."""
    world.answers = [HttpProbeResponse(200, None, b"ok")]
    action = HTTPGetAction(path="/h?x=1", port="web", http_headers=(HTTPHeader(name="X", value="y"),))
    ports = (ContainerPort(name="web", container_port=8080),)
    assert await world.probe(Probe(http_get=action), ports=ports) == ProbeOutcome.SUCCESS
    headers = {"X": "y", "User-Agent": "kube-probe/1.34", "Accept": "*/*"}
    assert world.requests == [("http://10.0.0.1:8080/h?x=1", headers)]


@pytest.mark.parametrize(
    ("answers", "verdict", "event"),
    [
        pytest.param(
            [HttpProbeResponse(500, None, b"secret")],
            ProbeOutcome.FAILURE,
            "Liveness probe failed: HTTP probe failed with statuscode: 500",
            id="500",
        ),
        pytest.param(
            [HttpProbeResponse(302, "http://example.com/", b"moved")],
            ProbeOutcome.SUCCESS,
            "Liveness probe warning: Probe terminated redirects, Response body: moved",
            id="elsewhere",
        ),
        pytest.param(
            [HttpProbeResponse(302, "/a", b"")] * 10,
            ProbeOutcome.FAILURE,
            'Liveness probe failed: Get "http://10.0.0.1:80/": stopped after 10 redirects',
            id="in circles",
        ),
        pytest.param(
            [HttpProbeError("EOF")],
            ProbeOutcome.FAILURE,
            'Liveness probe failed: Get "http://10.0.0.1:80/": EOF',
            id="EOF",
        ),
        pytest.param(
            [ProbeError("unexpected EOF", ProbeState.FAILURE)] * 3,
            None,
            "Liveness probe errored and resulted in failure state: unexpected EOF",
            id="broken body",
        ),
    ],
)
async def test_http_answers_become_verdicts_and_events(
    world: World, answers: list[HttpProbeResponse | Exception], verdict: ProbeOutcome | None, event: str
) -> None:
    """The texts are upstream's."""
    world.answers = list(answers)
    assert await world.probe(Probe(http_get=HTTPGetAction(path="/", port=80))) == verdict
    assert [told[2] for told in world.events] == [event]
    assert world.answers == []


async def test_own_host_header_does_not_follow_to_an_address_the_server_names(world: World) -> None:
    """It is kept on a relative one."""
    world.answers = [
        HttpProbeResponse(302, "/a", b""),
        HttpProbeResponse(302, "http://10.0.0.1:81/b", b""),
        HttpProbeResponse(200, None, b""),
    ]
    action = HTTPGetAction(path="/", port=80, http_headers=(HTTPHeader(name="Host", value="example.com"),))
    assert await world.probe(Probe(http_get=action)) == ProbeOutcome.SUCCESS
    assert [(url, headers.get("Host")) for url, headers in world.requests] == [
        ("http://10.0.0.1:80/", "example.com"),
        ("http://10.0.0.1:80/a", "example.com"),
        ("http://10.0.0.1:81/b", None),
    ]


async def test_secret_header_does_not_follow_out_of_tls(world: World) -> None:
    """The target is plain HTTP, where others could read the header."""
    world.answers = [
        HttpProbeResponse(302, "https://10.0.0.1:443/a", b""),
        HttpProbeResponse(302, "http://10.0.0.1:80/b", b""),
        HttpProbeResponse(200, None, b""),
    ]
    secret = HTTPHeader(name="Authorization", value="Bearer x")
    action = HTTPGetAction(path="/", port=443, scheme="HTTPS", http_headers=(secret,))
    assert await world.probe(Probe(http_get=action)) == ProbeOutcome.SUCCESS
    assert [headers.get("Authorization") for _, headers in world.requests] == ["Bearer x", "Bearer x", None]


async def test_cancelling_a_probe_ends_it(world: World) -> None:
    """Deleting a pod cancels its probes without an event."""
    world.takes_seconds = 10_000
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await world.probe(command("x"))
    assert world.events == []
