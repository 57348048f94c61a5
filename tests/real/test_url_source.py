"""UrlSource against a web server on loopback; spec 2.12-35 to 40 at the level of the source."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from pykubelet.aio.log import facts_of
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import CONFIG_HASH
from pykubelet.client.manifests.last_known_good import SourceProblem
from pykubelet.kubelet.config.config import SourceChannel
from pykubelet.kubelet.config.http import UrlSource
from pykubelet.kubelet.types import PodOperation, PodSource

Answer = Callable[[web.Request], web.StreamResponse]
SECRET = "s3cr3t"


class Reported:
    """The source's problems as a user would see them, by place."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}

    def report(self, problem: SourceProblem) -> None:
        self.open[problem.where] = problem.message

    def clear(self, source: str, where: str) -> None:
        del self.open[where]


class Polled:
    """A running UrlSource, its server, its SETs and its problems."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.answer: Answer = lambda _: web.Response(status=404)
        self.problems = Reported()
        self.sets: list[tuple[Pod, ...]] = []
        self.url, self.pause_seconds = "", 0.0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        await asyncio.sleep(self.pause_seconds)
        return self.answer(request)

    async def listen(self, channel: SourceChannel) -> None:
        while True:
            update = await channel.receive()
            assert update.op is PodOperation.SET
            self.sets.append(update.pods)

    def serve(self, body: str, **headers: str) -> None:
        self.answer = lambda _: web.Response(text=body, headers=headers)

    async def polls(self, count: int = 2) -> None:
        """Wait for `count` more requests; by the second one, the source has processed a new answer."""
        wanted = len(self.requests) + count
        await self.expect(lambda: len(self.requests) >= wanted)

    async def expect(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                await asyncio.sleep(0.005)

    def names(self) -> list[list[str]]:
        return [[pod.metadata.name for pod in pods] for pods in self.sets]

    def problem(self) -> str:
        return next(iter(self.problems.open.values()), "")


@asynccontextmanager
async def polling(
    body: str = "", *, headers: Mapping[str, Sequence[str]] | None = None, path: str = "/manifest"
) -> AsyncIterator[Polled]:
    polled, channel = Polled(), SourceChannel(PodSource.HTTP)
    polled.serve(body)
    app = web.Application()
    app.router.add_get("/{tail:.*}", polled.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    polled.url = f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
    source = UrlSource(
        url=polled.url,
        node_name="n",
        channel=channel,
        problems=polled.problems,
        headers=headers,
        period_seconds=0.01,
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(source.run(asyncio.Event())), tasks.create_task(polled.listen(channel))]
            yield polled
            for task in running:
                task.cancel()
    finally:
        await runner.cleanup()


def pod(name: str = "foo", uid: str = "111", **changes: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "1", "image": "foo", "imagePullPolicy": "Always"}], **changes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": uid}, "spec": spec}


def pod_list(*items: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items})


FOO = json.dumps(pod())
VOLUME = {"name": "v", "emptyDir": {}}


@pytest.mark.parametrize("number", [pytest.param("2.12-35", id="2.12-35 nothing listens: nothing is said")])
async def test_refused_connection_is_reported_without_an_update(number: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        channel, problems, ready = SourceChannel(PodSource.HTTP), Reported(), asyncio.Event()
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        source = UrlSource(url=url, node_name="n", channel=channel, problems=problems)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(source.run(ready))
            await ready.wait()
            running.cancel()
    assert list(problems.open) == [url]
    assert problems.open[url].startswith("cannot connect: ")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(channel.receive(), 0.01)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"kind": "Pod"}, id="2.12-36 no apiVersion"),
        pytest.param({**pod(), "apiVersion": "v9"}, id="2.12-36 unknown apiVersion"),
        pytest.param(pod(volumes=[{**VOLUME, "name": "_INVALID_"}]), id="2.12-36 bad volume name"),
        pytest.param(pod(volumes=[VOLUME, VOLUME]), id="2.12-36 volume name twice"),
        pytest.param(pod(containers=[{"name": "", "image": "i"}]), id="2.12-36 empty container name"),
        pytest.param(pod(containers=[{"name": "_INVALID_", "image": "i"}]), id="2.12-36 bad container name"),
    ],
)
async def test_bad_body_is_reported_without_an_update(body: dict[str, Any]) -> None:
    async with polling(json.dumps(body)) as polled:
        await polled.polls(3)
        assert polled.sets == []
        assert polled.problem()


@pytest.mark.parametrize("number", [pytest.param("2.12-37", id="2.12-37 a single pod")])
async def test_single_pod(number: str) -> None:
    async with polling(FOO) as polled:
        await polled.polls()
    [[found]] = polled.sets
    assert (found.metadata.name, found.metadata.uid, found.metadata.namespace) == ("foo-n", "111", "default")
    assert found.metadata.annotations == {CONFIG_HASH: "111"}
    assert (found.spec.node_name, found.spec.tolerations, found.status.phase) == ("n", (), "Pending")


@pytest.mark.parametrize("number", [pytest.param("2.12-38", id="2.12-38 a list of pods")])
async def test_list_of_pods(number: str) -> None:
    bar = pod("bar", "222", containers=[{"name": "2", "image": "bar:bartag"}])
    async with polling(pod_list(pod(), bar)) as polled:
        await polled.polls()
    [pods] = polled.sets
    told = [(p.metadata.name, p.metadata.namespace, p.spec.containers[0].image_pull_policy) for p in pods]
    assert told == [("foo-n", "default", "Always"), ("bar-n", "default", "IfNotPresent")]


@pytest.mark.parametrize("number", [pytest.param("2.12-39", id="2.12-39 headers are sent as configured")])
async def test_headers_are_sent(number: str) -> None:
    async with polling(FOO, headers={"Metadata-Flavor": ["Google"], "X-Two": ["1", "2"]}) as polled:
        await polled.polls()
    assert polled.names() == [["foo-n"]]
    assert polled.requests[0].headers["Metadata-Flavor"] == "Google"
    assert polled.requests[0].headers.getall("X-Two") == ["1", "2"]


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([FOO, FOO], id="2.12-40 the same body again says nothing"),
        pytest.param([FOO, "", FOO], id="2.12-40 an empty body keeps the pods (departure)"),
        pytest.param([FOO, "# nothing", "kind: [", FOO], id="2.12-40 so does a broken one (departure)"),
    ],
)
async def test_body_without_news_keeps_the_pods(bodies: list[str]) -> None:
    async with polling() as polled:
        await polled.polls()
        assert polled.sets == []
        assert "zero-length data" in polled.problem()
        for body in bodies:
            polled.serve(body)
            await polled.polls(3)
            assert bool(polled.problem()) is (body != FOO)
        assert polled.names() == [["foo-n"]]


async def test_explicit_empty_list_removes_the_pods() -> None:
    """Only an explicit empty list removes pods; every document of a body is read."""
    async with polling(f"{FOO}\n---\n{json.dumps(pod('bar', '222'))}") as polled:
        await polled.polls()
        polled.serve(pod_list())
        await polled.polls()
        assert polled.names() == [["foo-n", "bar-n"], []]
        assert not polled.problem()


async def test_bad_item_refuses_the_whole_list() -> None:
    """As in upstream: accepting half of a list would remove the other half."""
    async with polling(pod_list(pod(), pod("bar", "222", containers=[]))) as polled:
        await polled.polls()
        assert polled.sets == []
        assert polled.problem()


@pytest.mark.parametrize("status", [201, 204, 404, 500])
async def test_only_200_counts(status: int) -> None:
    """Any other status is a problem, whatever the body."""
    async with polling(FOO) as polled:
        await polled.polls()
        polled.answer = lambda _: web.Response(status=status, text="" if status == 204 else pod_list())
        await polled.polls()
        assert polled.problem().startswith(str(status))
        assert polled.names() == [["foo-n"]]


async def test_entity_tag_saves_the_body() -> None:
    """The source sends the ETag, and the answer 304 is a success."""

    def answer(request: web.Request) -> web.Response:
        if request.headers.get("If-None-Match") == '"1"':
            return web.Response(status=304)
        return web.Response(text=FOO, headers={"ETag": '"1"'})

    async with polling() as polled:
        polled.answer = answer
        await polled.polls(4)
        assert polled.names() == [["foo-n"]]
        assert not polled.problem()
    assert polled.requests[-1].headers["If-None-Match"] == '"1"'


async def test_redirect_is_followed_only_within_the_host() -> None:
    """Another host must not get the headers, which may hold a secret; ten redirects are followed at most."""

    def answer(request: web.Request) -> web.Response:
        if request.path == "/new":
            return web.Response(text=FOO)
        return web.Response(status=302, headers={"Location": "/new"})

    async with polling() as polled:
        polled.answer = answer
        await polled.expect(lambda: bool(polled.sets))
        polled.answer = lambda _: web.Response(status=302, headers={"Location": "http://localhost:1/"})
        await polled.polls()
        assert polled.problem() == "a redirect to another host is refused"
        polled.answer = lambda _: web.Response(status=302, headers={"Location": "/loop"})
        await polled.polls(12)
        assert polled.problem() == "more than 10 redirects"


async def test_server_that_hangs_up_is_a_problem() -> None:
    """The next poll tries again, and succeeds."""

    def answer(request: web.Request) -> web.Response:
        assert request.transport
        request.transport.close()
        return web.Response()

    async with polling() as polled:
        polled.answer = answer
        await polled.polls()
        assert polled.problem() == "ServerDisconnectedError"
        polled.serve(FOO)
        await polled.polls()
        assert polled.names() == [["foo-n"]]


async def test_server_that_does_not_answer_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout of a poll is ten seconds; the test shortens it."""
    monkeypatch.setattr("pykubelet.kubelet.config.http.TIMEOUT_SECONDS", 0.05)
    async with polling() as polled:
        polled.pause_seconds = 0.2
        await polled.expect(lambda: polled.problem() == "no answer within 0.05 s")


async def test_huge_body_is_refused() -> None:
    """A body of 10 MiB or more is a problem and sends no update."""
    async with polling(FOO + " " * 10 * 2**20) as polled:
        await polled.polls()
        assert polled.sets == []
        assert polled.problem() == "the read limit is reached"


async def test_secrets_are_never_told(caplog: pytest.LogCaptureFixture) -> None:
    """Logs and problems contain neither the body, nor header values, nor the query of the URL."""
    caplog.set_level(logging.DEBUG, logger="pykubelet")
    headers = {"Authorization": [SECRET]}
    async with polling(f"kind: [{SECRET}", headers=headers, path=f"/m?token={SECRET}") as polled:
        await polled.polls(6)
        polled.answer = lambda _: web.Response(status=500, text=SECRET)
        await polled.polls(3)
    told = [(record.getMessage(), facts_of(record)) for record in caplog.records]
    assert told
    assert SECRET not in repr(told) + repr(polled.problems.open)


async def test_repeated_failures_are_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    """The fourth line at info level announces debug level for the rest; the first success is logged."""
    caplog.set_level(logging.DEBUG, logger="pykubelet.kubelet.config.http")
    async with polling() as polled:
        await polled.polls(6)
        polled.serve(FOO)
        await polled.polls(3)
    records = [record for record in caplog.records if record.name.endswith(".http")]
    levels = [record.levelno for record in records]
    assert levels[:4] == [logging.INFO] * 4
    assert set(levels[4:-1]) == {logging.DEBUG}
    assert "debug level" in records[3].getMessage()
    assert "again" in records[-1].getMessage()


@pytest.mark.parametrize("url", ["", "/etc/manifests", "ftp://host/x", "http://"])
def test_url_must_be_one_of_http(url: str) -> None:
    """Another URL raises ValueError when the source is created."""
    with pytest.raises(ValueError, match="scheme"):
        UrlSource(url=url, node_name="n", channel=SourceChannel(PodSource.HTTP), problems=Reported())
