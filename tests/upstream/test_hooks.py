"""Cases 6.24-56, -58 and -59: hooks of containers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.generated.core import (
    ContainerPort,
    ExecAction,
    HTTPGetAction,
    HTTPHeader,
    Lifecycle,
    LifecycleHandler,
    SleepAction,
)
from pykubelet.api.pods import PodUid
from pykubelet.httpserver.http_client import HttpGetRequest
from pykubelet.httpserver.http_failure import HttpFailure
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner, HookFailure
from pykubelet.runtimes.protocol import CommandResult, RuntimeFailure, RuntimePod, Sandbox
from pykubelet.runtimes.sim.runtime import SimRuntime
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH, VirtualClock
from runtime_rig import Rig, SeenCommands, SeenEvents

WEB = pod()
MAIN = container(ports=(ContainerPort(name="http", container_port=8080),))
NOT_TLS = HttpFailure("record overflow", is_plain_http=True)
REFUSED = HttpFailure("connection refused")


class SeenHttp:
    """Answers HTTP requests in turn with a status or a failure."""

    def __init__(self, *answers: int | HttpFailure) -> None:
        self._answers = list(answers)
        self.requests: list[HttpGetRequest] = []

    async def get(self, request: HttpGetRequest) -> int:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, HttpFailure):
            raise answer
        return answer


class OnePod(SimRuntime):
    """A simulated runtime in which every pod has these addresses."""

    def __init__(self, *ips: str) -> None:
        super().__init__(clock=VirtualClock())
        self.ips = ips

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        sandbox = Sandbox(id="s", created_at=EPOCH, ips=self.ips)
        return RuntimePod(uid=uid, namespace="default", name="web", sandboxes=(sandbox,))


class Play:
    """Runs hooks and records their commands, HTTP requests and events."""

    def __init__(self, *answers: int | HttpFailure, ips: Sequence[str] = ("10.0.0.1",)) -> None:
        self.http, self.commands, self.events = SeenHttp(*answers), SeenCommands(), SeenEvents()
        self._hooks = HandlerRunner(commands=self.commands, http=self.http, runtime=OnePod(*ips), events=self.events)

    async def run(self, hook: LifecycleHandler) -> str:
        """Run a hook and return why it failed; empty if it succeeded."""
        try:
            await self._hooks.run("id", WEB, MAIN, hook)
        except HookFailure as failure:
            return str(failure)
        return ""


def http(**fields: Any) -> LifecycleHandler:
    return LifecycleHandler(http_get=HTTPGetAction(**{"path": "start", "port": 80, **fields}))


@pytest.mark.case("6.24-56 exec runs the command in the container, without a time limit")
async def test_exec_hook_runs_its_command() -> None:
    play = Play()
    play.commands.seconds = 100_000
    assert await play.run(LifecycleHandler(exec=ExecAction(command=("ls", "--a")))) == ""
    assert play.commands.runs == [("ls", "--a")]


@pytest.mark.case("6.24-56 exec that fails says what the command said")
@pytest.mark.parametrize(
    ("outcome", "failure", "told"),
    [
        (CommandResult(3, b'a "b"\nc', b"c"), None, 'command \'ls --a\' exited with 3: c, message: "a \\"b\\"\\nc"'),
        (CommandResult(1, b"\xff", b"\xfe"), None, "command 'ls --a' exited with 1: \ufffd, message: \"\ufffd\""),
        (CommandResult(0, b""), RuntimeFailure("container is gone"), 'container is gone, message: ""'),
    ],
    ids=["exit code", "no text", "not run"],
)
async def test_exec_hook_that_fails_is_a_failure(
    outcome: CommandResult, failure: RuntimeFailure | None, told: str
) -> None:
    play = Play()
    play.commands.outcome, play.commands.failure = outcome, failure
    where = 'for Container "main" in Pod "web_default(uid-default-web)" failed - error:'
    message = await play.run(LifecycleHandler(exec=ExecAction(command=("ls", "--a"))))
    assert message == f"Exec lifecycle hook ([ls --a]) {where} {told}"


@pytest.mark.case("6.24-56 http asks the pod, unless the hook names a host")
@pytest.mark.parametrize(
    ("fields", "ips", "url"),
    [
        ({}, ("10.0.0.1", "fd00::1"), "http://10.0.0.1:80/start"),
        ({"path": "/a?b=c"}, ("fd00::1",), "http://[fd00::1]:80/a?b=c"),
        ({"host": "example.com", "path": ""}, (), "http://example.com:80"),
        ({"port": "http"}, ("10.0.0.1",), "http://10.0.0.1:8080/start"),
        ({"port": "81"}, ("10.0.0.1",), "http://10.0.0.1:81/start"),
        ({"scheme": "HTTPS"}, ("10.0.0.1",), "https://10.0.0.1:80/start"),
    ],
)
async def test_http_hook_requests_the_expected_url(fields: dict[str, Any], ips: tuple[str, ...], url: str) -> None:
    play = Play(200, ips=ips)
    assert await play.run(http(**fields)) == ""
    assert [request.url for request in play.http.requests] == [url]


HEADERS = {
    "defaults": ((), {("User-Agent", "kube-lifecycle/1.34"), ("Accept", "*/*")}),
    "own": ((("user-agent", "me"), ("accept", "text/plain")), {("user-agent", "me"), ("accept", "text/plain")}),
    "accept emptied": (
        (("Accept", ""), ("X", "1"), ("X", "2")),
        {("User-Agent", "kube-lifecycle/1.34"), ("X", "1"), ("X", "2")},
    ),
}


@pytest.mark.case("6.24-56 http sends the headers of the hook and its own")
@pytest.mark.parametrize(("given", "sent"), HEADERS.values(), ids=HEADERS)
async def test_http_hook_sends_headers(given: Sequence[tuple[str, str]], sent: set[tuple[str, str]]) -> None:
    play = Play(200)
    await play.run(http(http_headers=tuple(HTTPHeader(name=name, value=value) for name, value in given)))
    assert set(play.http.requests[0].headers) == sent


@pytest.mark.case("6.24-58 an answer of 500 is success, a refused connection failure")
@pytest.mark.parametrize(
    ("answer", "told"), [(500, ""), (404, ""), (REFUSED, "connection refused")], ids=["500", "404", "refused"]
)
async def test_http_hook_succeeds_with_any_status(answer: int | HttpFailure, told: str) -> None:
    where = 'for Container "main" in Pod "web_default(uid-default-web)" failed - error:'
    assert await Play(answer).run(http()) == (f"HTTP lifecycle hook (start) {where} {told}" if told else "")


@pytest.mark.case("6.24-59 https meeting plain http: once more over http, without Authorization, one event")
async def test_https_hook_falls_back_to_http() -> None:
    play = Play(NOT_TLS, 200)
    headers = (HTTPHeader(name="authorization", value="Bearer secret"), HTTPHeader(name="X", value="1"))
    assert await play.run(http(scheme="HTTPS", http_headers=headers)) == ""
    first, second = play.http.requests
    assert (first.scheme, second.scheme) == ("https", "http")
    assert {name.lower() for name, _ in first.headers} - {name.lower() for name, _ in second.headers} == {
        "authorization"
    }
    told = "request to HTTPS lifecycle hook 10.0.0.1:80 got HTTP response, retry with HTTP succeeded"
    assert play.events.seen == [("Warning", "LifecycleHTTPFallback", told)]


@pytest.mark.case("6.24-59 no fallback for other failures, or from http, or told if it fails too")
@pytest.mark.parametrize(
    ("scheme", "answers", "requests"),
    [("HTTPS", (REFUSED,), 1), ("HTTP", (NOT_TLS,), 1), ("HTTPS", (NOT_TLS, REFUSED), 2)],
    ids=["refused", "http", "both fail"],
)
async def test_hook_that_cannot_fall_back_fails(scheme: str, answers: tuple[HttpFailure, ...], requests: int) -> None:
    play = Play(*answers)
    assert str(answers[0]) in await play.run(http(scheme=scheme))
    assert len(play.http.requests) == requests
    assert play.events.seen == []


@pytest.mark.case("6.24-59 a handler with no action is an error")
async def test_hook_without_action_fails() -> None:
    assert (await Play().run(LifecycleHandler())).startswith("Cannot run handler: invalid handler")


@pytest.mark.case("6.24-58 a port that is none, or a pod without address, is a failure")
@pytest.mark.parametrize(
    ("fields", "ips", "told"),
    [
        ({"port": "nobody"}, ("10.0.0.1",), 'strconv.Atoi: parsing "nobody": invalid syntax'),
        ({"port": 0}, ("10.0.0.1",), "invalid port number: 0"),
        ({}, (), "failed to find networking container: the pod has no IP"),
    ],
)
async def test_http_hook_fails_without_a_valid_port_or_address(
    fields: dict[str, Any], ips: tuple[str, ...], told: str
) -> None:
    assert (await Play(ips=ips).run(http(**fields))).endswith(f"failed - error: {told}")


@pytest.mark.case("6.24-56 postStart runs when a container starts, also for restartable init containers")
@pytest.mark.parametrize("is_sidecar", [False, True], ids=["regular", "restartable init"])
async def test_post_start_runs_after_the_start_and_holds_up_what_follows(tmp_path: Path, is_sidecar: bool) -> None:
    hook = Lifecycle(post_start=LifecycleHandler(exec=ExecAction(command=("hi",))))
    first = container("first", lifecycle=hook, restart_policy="Always" if is_sidecar else None)
    containers = () if is_sidecar else (first, container("second"))
    async with Rig(tmp_path).running() as rig:
        rig.commands.seconds = 3
        await rig.sync(pod(containers=containers, init_containers=(first,) if is_sidecar else ()))
        assert rig.commands.runs == [("hi",)]
        assert rig.clock.monotonic() == 3
        started = [message for _, reason, message in rig.events.seen if reason == "Started"]
        assert started == [f"Started container {name}" for name in (["first"] if is_sidecar else ["first", "second"])]


@pytest.mark.case("6.24-56 sleep waits its seconds")
async def test_sleep_hook_sleeps() -> None:
    before = VirtualClock().monotonic()
    assert await Play().run(LifecycleHandler(sleep=SleepAction(seconds=4))) == ""
    assert VirtualClock().monotonic() - before == 4


@pytest.mark.case("6.24-56 exec on a runtime that runs no commands is a failure")
async def test_exec_hook_fails_when_the_runtime_runs_no_commands() -> None:
    hooks = HandlerRunner(commands=None, http=SeenHttp(), runtime=OnePod(), events=SeenEvents())
    with pytest.raises(HookFailure, match="the runtime runs no commands"):
        await hooks.run("id", WEB, MAIN, LifecycleHandler(exec=ExecAction(command=("ls",))))
