"""The kubelet API, case by case: health, disabled debugging handlers, logs, run, and authorization."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace as with_fields

from node_api_rig import FixedJudge, NodeRig, asked
from pykubelet.api.generated import core
from pykubelet.api.pods import PodUid
from pykubelet.httpserver.response import HttpError, HttpResponse, HttpStream
from pykubelet.kubelet.logs.log_lines import LogQuery
from pykubelet.kubelet.pleg.pleg import CachedStatus
from pykubelet.kubelet.server.auth import attributes_of
from pykubelet.kubelet.server.container_logs import PodLogOptions, log_options
from pykubelet.kubelet.server.handlers import KubeletHandlers
from pykubelet.kubelet.server.routes import KubeletEndpoint
from pykubelet.runtimes.log_format import STDERR
from pykubelet.runtimes.protocol import CommandResult, ContainerState
from pykubelet.testing.build import container, pod
from sync_loop_rig import LoopLab

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVERYTHING = FixedJudge(
    *((verb, name) for verb in ("get", "create") for name in ("proxy", "pods", "healthz", "metrics"))
)


class WrittenDown:
    """Records commands instead of running them."""

    def __init__(self, outcome: CommandResult) -> None:
        self.outcome = outcome
        self.ran: list[tuple[str, list[str]]] = []

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        self.ran.append((container_id, list(command)))
        return self.outcome


async def reply(
    front: KubeletHandlers, method: str, target: str, *, token: str = "good", body: bytes = b""
) -> tuple[int, str]:
    """Send a request, and return the status code and body of the response."""
    answer = await front.answer(asked(method, target, token=token, body=body))
    assert isinstance(answer, HttpResponse)
    return answer.code, answer.body.decode()


@pytest.mark.case("6.24-71 health of the sync loop")
async def test_health_fails_with_the_sync_loop(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    front = rig.front(EVERYTHING)
    assert await reply(front, "GET", "/healthz") == (200, "ok")
    assert await reply(front, "GET", "/healthz/syncloop") == (200, "ok")
    rig.stuck = "sync Loop took longer than expected"
    code, text = await reply(front, "GET", "/healthz")
    assert code == 500
    assert text == "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n"
    assert await reply(front, "GET", "/healthz/syncloop") == (
        500,
        "internal server error: sync Loop took longer than expected\n",
    )


@pytest.mark.case("6.24-71 a loop that was last entered ten minutes ago")
async def test_health_follows_the_age_of_the_last_round(tmp_path: Path) -> None:
    lab = LoopLab()
    front = NodeRig(tmp_path).front(EVERYTHING, checks={"syncloop": lambda: lab.loop.stuck_error(60)})
    assert await reply(front, "GET", "/healthz") == (200, "ok")
    async with lab.running():
        await asyncio.sleep(600)
        assert await reply(front, "GET", "/healthz") == (200, "ok")
        lab.outside.runtime_down = "no answer"
        await asyncio.sleep(600)
        assert (await reply(front, "GET", "/healthz"))[0] == 500
        lab.outside.runtime_down = ""
        await asyncio.sleep(10)
        assert await reply(front, "GET", "/healthz") == (200, "ok")


@pytest.mark.case("6.24-72 debugging handlers disabled")
@pytest.mark.parametrize(
    "path",
    [
        "/run/a",
        "/exec/a",
        "/attach/a",
        "/portForward/a",
        "/containerLogs/a",
        "/runningpods/",
        "/debug/pprof/",
        "/logs/x",
    ],
)
async def test_debugging_handlers_can_be_disabled(tmp_path: Path, path: str) -> None:
    judge = FixedJudge(*((verb, name) for verb in ("get", "create") for name in ("proxy", "pods", "log")))
    front = NodeRig(tmp_path).front(judge, debugging=False)
    for method in ("GET", "POST"):
        assert await reply(front, method, path) == (405, "Debug endpoints are disabled.\n")
    assert (await reply(front, "GET", "/pods"))[0] == 200


LOG_CASES = {
    "no options": ("", PodLogOptions(LogQuery())),
    "timestamps": ("timestamps=1", PodLogOptions(LogQuery(timestamps=True))),
    "limitBytes": ("limitBytes=3", PodLogOptions(LogQuery(limit_bytes=3))),
    "sinceSeconds": ("sinceSeconds=5", PodLogOptions(LogQuery(since=NOW - timedelta(seconds=5)))),
    "sinceTime": ("sinceTime=2026-01-02T03:04:00Z", PodLogOptions(LogQuery(since=NOW - timedelta(seconds=5)))),
    "follow": ("follow=1", PodLogOptions(LogQuery(follow=True))),
    "previous": ("previous=1", PodLogOptions(LogQuery(), previous=True)),
    "tailLines": ("tailLines=5", PodLogOptions(LogQuery(tail_lines=5))),
    "tail": ("tail=5", PodLogOptions(LogQuery(tail_lines=5))),
    "tail all": ("tail=all&tailLines=7", PodLogOptions(LogQuery())),
    "one stream": ("stream=Stderr", PodLogOptions(LogQuery(stream=STDERR))),
    "not followed": ("follow=false&previous=0", PodLogOptions(LogQuery())),
    "negative tail": ("tail=-1", 422),
    "no bytes": ("limitBytes=0", 422),
    "now": ("sinceSeconds=0", 422),
    "two times": ("sinceSeconds=1&sinceTime=2026-01-02T03:04:00Z", 422),
    "unknown stream": ("stream=Stdin", 422),
    "tail of one stream": ("stream=Stdout&tailLines=1", 422),
    "no number": ("tailLines=five", 400),
    "no time": ("sinceTime=yesterday", 400),
    "too large a number": ("limitBytes=99999999999999999999", 400),
}


@pytest.mark.case("6.24-73 options of container logs")
@pytest.mark.parametrize("name", LOG_CASES)
def test_options_of_logs_are_read_as_upstream_reads_them(name: str) -> None:
    query, expected = LOG_CASES[name]
    given = [tuple(part.split("=")) for part in query.split("&") if part]
    pairs = [(key, value) for key, value in given]
    if isinstance(expected, int):
        with pytest.raises(HttpError) as refused:
            log_options(pairs, NOW)
        assert refused.value.reply.code == expected
    else:
        assert log_options(pairs, NOW) == expected


WRITTEN = [f"{second:02}" for second in range(8)]
READ_CASES = {
    "no options": ("", WRITTEN),
    "timestamps": ("?timestamps=true", [f"2026-01-02T03:04:{text}.000000000Z {text}" for text in WRITTEN]),
    "limitBytes": ("?limitBytes=6", WRITTEN[:2]),
    "sinceTime": ("?sinceTime=2026-01-02T03:04:06Z", WRITTEN[6:]),
    "sinceSeconds": ("?sinceSeconds=1", []),
    "follow": ("?follow=true", WRITTEN),
    "previous": ("?previous=true", ["before"]),
    "tailLines": ("?tailLines=5", WRITTEN[-5:]),
    "tail": ("?tail=5", WRITTEN[-5:]),
    "tail all": ("?tail=all", WRITTEN),
}


def restarted(rig: NodeRig) -> None:
    """Add a pod whose container has run twice and has a log of each run."""
    given = rig.add_pod(attempt=1)
    written = "".join(f"2026-01-02T03:04:{text}Z stdout F {text}\n" for text in WRITTEN)
    rig.log_path(given, attempt=1).write_text(written)
    rig.log_path(given, attempt=0).write_text("2026-01-02T03:04:00Z stdout F before\n")
    uid = PodUid(given.metadata.uid)
    (second,) = rig.cache.get(uid).containers
    ended = replace(second, state=ContainerState.EXITED)
    both = replace(rig.cache.get(uid), containers=(ended, replace(ended, id="first", attempt=0)))
    rig.cache.put(uid, CachedStatus(rig.cache.begin(), both))
    before = core.ContainerState(terminated=core.ContainerStateTerminated(container_id="test://first"))
    status = rig.statuses.pod_status(uid)
    assert status is not None
    shown = with_fields(status.container_statuses[0], last_state=before)
    rig.statuses.set_pod_status(given, with_fields(status, container_statuses=(shown,)))


@pytest.mark.case("6.24-73 options reach the log reader")
@pytest.mark.parametrize("name", READ_CASES)
async def test_container_log_follows_its_options(tmp_path: Path, name: str) -> None:
    query, lines = READ_CASES[name]
    rig = NodeRig(tmp_path)
    restarted(rig)
    answer = await rig.front(EVERYTHING).answer(asked("GET", f"/containerLogs/default/web/main{query}"))
    assert isinstance(answer, HttpStream)
    sent = bytearray()

    async def write(chunk: bytes) -> None:
        sent.extend(chunk)

    await answer.copy(write)
    assert sent.decode().splitlines() == lines


@pytest.mark.case("6.24-73 tail=-1 is refused")
async def test_log_is_refused_when_tail_is_negative(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    rig.add_pod()
    front = rig.front(EVERYTHING)
    refusal = (422, '{"message": "Invalid request."}')
    assert await reply(front, "GET", "/containerLogs/default/web/main?tail=-1") == refusal


@pytest.mark.case("6.24-74 run splits its command at spaces")
@pytest.mark.parametrize("middle", ["", "uid-default-web/"], ids=["without uid", "with uid"])
async def test_run_runs_in_the_pod_of_that_name(tmp_path: Path, middle: str) -> None:
    rig, commands = NodeRig(tmp_path), WrittenDown(CommandResult(0, b"a\n"))
    rig.add_pod(pod("web", containers=[container("main")]))
    front = rig.front(EVERYTHING, commands=commands)
    path = f"/run/default/web/{middle}main"
    assert await reply(front, "POST", f"{path}?cmd=ls%20-a") == (200, "a\n")
    assert await reply(front, "POST", path, body=b"cmd=ls+-a") == (200, "a\n")
    assert commands.ran == [("uid-default-web-main-0", ["ls", "-a"])] * 2
    commands.outcome = CommandResult(2, b"so\noh", b"oh")
    assert await reply(front, "POST", f"{path}?cmd=ls") == (500, "command 'ls' exited with 2: oh")
    assert await reply(front, "POST", "/run/default/web/other-uid/main") == (500, 'container not found ("main")')
    assert await reply(front, "POST", "/run/default/nobody/main") == (404, "pod does not exist")
    assert (await reply(front, "GET", path))[0] == 405


@pytest.mark.case("6.24-75 every path has an authorization mapping")
@pytest.mark.parametrize(
    ("method", "path", "verb", "subresources"),
    [
        ("GET", "/pods", "get", ("pods", "proxy")),
        ("GET", "/runningpods/", "get", ("pods", "proxy")),
        ("GET", "/healthz/log", "get", ("healthz", "proxy")),
        ("GET", "/configz", "get", ("configz", "proxy")),
        ("GET", "/stats/summary", "get", ("stats",)),
        ("GET", "/metrics/cadvisor", "get", ("metrics",)),
        ("GET", "/logs/kern.log", "get", ("log",)),
        ("POST", "/checkpoint/a/b/c", "create", ("checkpoint",)),
        ("GET", "/statusz", "get", ("statusz",)),
        ("GET", "/flagz", "get", ("configz",)),
        ("PUT", "/debug/flags/v", "update", ("proxy",)),
        ("GET", "/containerLogs/a/b/c", "get", ("proxy",)),
        ("GET", "/podsandmore", "get", ("proxy",)),
        # A WebSocket begins with GET: permission to read must not include permission to run commands.
        ("GET", "/exec/a/b/c", "create", ("proxy",)),
        ("GET", "/attach/a/b/c", "create", ("proxy",)),
        ("GET", "/portForward/a/b", "create", ("proxy",)),
        ("POST", "/run/a/b/c", "create", ("proxy",)),
    ],
)
def test_paths_need_rights_to_the_node(method: str, path: str, verb: str, subresources: tuple[str, ...]) -> None:
    assert attributes_of(method, path) == (verb, subresources)


@pytest.mark.case("6.24-75 who is not known, or not allowed, gets nothing")
@pytest.mark.parametrize(
    ("judge", "token", "code", "text", "questions"),
    [
        (FixedJudge(), "", 401, "Unauthorized", []),
        (FixedJudge(), "bad", 401, "Unauthorized", []),
        (FixedJudge(), "g\u00f6\udcff", 401, "Unauthorized", []),
        (FixedJudge(failing="authentication"), "good", 401, "Unauthorized", []),
        (
            FixedJudge(),
            "good",
            403,
            "Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[pods proxy])\n",
            [("get", "pods"), ("get", "proxy")],
        ),
        (
            FixedJudge(failing="authorization"),
            "good",
            500,
            "Authorization error (user=jane, verb=get, resource=nodes, subresource=pods)",
            [("get", "pods")],
        ),
    ],
    ids=["anonymous", "unknown", "no text", "authenticator errs", "not allowed", "authorizer errs"],
)
async def test_request_without_credentials_or_rights_is_refused(
    tmp_path: Path, judge: FixedJudge, token: str, code: int, text: str, questions: list[tuple[str, str]]
) -> None:
    front = NodeRig(tmp_path).front(judge)
    assert await reply(front, "GET", "/pods", token=token) == (code, text)
    assert judge.asked == questions


@pytest.mark.case("6.24-75 any one allowed attribute set is enough")
@pytest.mark.parametrize("right", ["pods", "proxy"])
async def test_one_right_is_enough(tmp_path: Path, right: str) -> None:
    front = NodeRig(tmp_path).front(FixedJudge(("get", right)))
    assert (await reply(front, "GET", "/pods"))[0] == 200


@pytest.mark.case("6.24-75 no page is without its check")
@pytest.mark.parametrize("page", KubeletEndpoint, ids=lambda page: page.value)
async def test_every_page_is_behind_the_gate(tmp_path: Path, page: KubeletEndpoint) -> None:
    front = NodeRig(tmp_path).front(FixedJudge())
    for method in ("GET", "POST"):
        assert (await reply(front, method, f"{page.value}/default/web/main"))[0] == 403
