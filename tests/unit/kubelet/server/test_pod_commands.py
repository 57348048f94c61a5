"""Exec, attach and port-forward requests before a connection: lookup, rejections and errors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from logged_bugs import LoggedBugs
from node_api_rig import FixedJudge, NodeRig, asked
from pykubelet.httpserver.response import HttpError, HttpResponse
from pykubelet.httpserver.spdy.connection import BytePipe
from pykubelet.kubelet.pleg.pleg import CachedStatus
from pykubelet.kubelet.server.handlers import StreamUpgrade
from pykubelet.kubelet.server.pod_commands import PodCommands
from pykubelet.kubelet.server.routes import KubeletEndpoint, KubeletRoute
from pykubelet.kubelet.server.streaming.negotiation import UpgradeOffer
from pykubelet.kubelet.server.streaming.session import CommandSession, ForwardSession, RemoteStreams
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure
from pykubelet.testing.build import container, mirror_pod, pod, static_pod

WEB = KubeletRoute(KubeletEndpoint.EXEC, "default", "web", container="main")
OUTPUT = [("output", "1")]


def commands(rig: NodeRig) -> PodCommands:
    return PodCommands(pods=rig.pods, cache=rig.cache, streams=rig.streams, commands=rig.streams)


async def test_exec_by_the_uid_of_a_mirror_finds_its_static_pod(tmp_path: Path) -> None:
    """The API server only knows the UID of the mirror."""
    rig = NodeRig(tmp_path)
    rig.add_pod(static_pod("web", containers=[container("main")]))
    rig.pods.add_pod(mirror_pod("web"))
    found = commands(rig).exec(WEB._replace(uid="mirror-1"), OUTPUT)
    assert isinstance(found, CommandSession)
    assert commands(rig).forward(WEB._replace(uid="mirror-1"), [], is_web_socket=False).ports == ()


async def test_nothing_is_done_where_nothing_runs(tmp_path: Path) -> None:
    """Unknown pods, other UIDs, exited containers, and a runtime that does not answer."""
    rig = NodeRig(tmp_path)
    given = rig.add_pod()
    doing = commands(rig)
    refusals: list[tuple[int, Callable[[], object]]] = [
        (404, lambda: doing.exec(WEB._replace(pod="other"), OUTPUT)),
        (404, lambda: doing.forward(WEB._replace(uid="x"), [], is_web_socket=False)),
        (500, lambda: doing.exec(WEB._replace(container="other"), OUTPUT)),
        (500, lambda: doing.attach(WEB._replace(uid="x"), OUTPUT)),
    ]
    for code, call in refusals:
        with pytest.raises(HttpError) as refused:
            call()
        assert refused.value.reply.code == code
    rig.show(given, state=ContainerState.EXITED)
    with pytest.raises(HttpError, match="container not found"):
        doing.exec(WEB, OUTPUT)
    uid = next(iter(rig.cache))
    rig.cache.put(uid, CachedStatus(rig.cache.begin(), RuntimeFailure("the runtime is down")))
    with pytest.raises(HttpError, match="the runtime is down"):
        doing.exec(WEB, OUTPUT)
    rig.cache.put(uid, CachedStatus(rig.cache.begin(), None))
    with pytest.raises(HttpError, match="failed to find sandboxes"):
        doing.forward(WEB, [], is_web_socket=False)


async def test_runtime_without_streams_is_said_to_have_none(tmp_path: Path) -> None:
    """It applies to exec, attach, port-forward and run."""
    rig = NodeRig(tmp_path)
    rig.add_pod()
    unable = PodCommands(pods=rig.pods, cache=rig.cache, streams=None, commands=None)
    for call in (
        lambda: unable.exec(WEB, OUTPUT),
        lambda: unable.attach(WEB, OUTPUT),
        lambda: unable.forward(WEB, [], is_web_socket=False),
    ):
        with pytest.raises(HttpError) as refused:
            call()
        assert refused.value.reply.code == 501
    with pytest.raises(HttpError):
        await unable.run(WEB, [("cmd", "true")])


async def test_failed_attach_reports_the_cause(tmp_path: Path) -> None:
    """The cause is the Status of the session; the tty setting is the container's, not the caller's."""
    rig = NodeRig(tmp_path)
    rig.add_pod(pod("web", containers=[container("main", tty=True)]))
    session = commands(rig).attach(WEB, OUTPUT)
    status = await session.run(RemoteStreams())
    assert session.tty
    assert status["message"] == "Internal error occurred: error attaching to container: the container does not run"


async def test_forward_to_a_removed_pod_reports_the_cause(tmp_path: Path) -> None:
    """The pod is checked for each connection."""
    rig = NodeRig(tmp_path)
    rig.add_pod()
    session = commands(rig).forward(WEB, [("port", "80")], is_web_socket=True)
    rig.cache.put(next(iter(rig.cache)), CachedStatus(rig.cache.begin(), None))
    pipe = BytePipe()
    assert "failed to find sandboxes" in await session.forward(80, pipe, NoSink())
    assert session.ports == (80,)


class NoSink:
    """A sink that must not be written to."""

    async def write(self, data: bytes) -> None:
        raise AssertionError(data)


async def test_upgrades_are_agreed_on_before_anything_begins(tmp_path: Path) -> None:
    """Exec, attach and port-forward have their own kinds of session; requests without an upgrade are rejected."""
    rig = NodeRig(tmp_path)
    rig.add_pod()
    front = rig.front(FixedJudge(("create", "proxy")))
    offer = UpgradeOffer("Upgrade", "websocket", ("v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"), ())
    for path, kind in (
        ("exec/default/web/main", CommandSession),
        ("attach/default/web/main", CommandSession),
        ("portForward/default/web", ForwardSession),
    ):
        agreed = await front.answer(asked("GET", f"/{path}?output=1", offer=offer))
        assert isinstance(agreed, StreamUpgrade)
        assert isinstance(agreed.session, kind)
        refused = await front.answer(asked("GET", f"/{path}?output=1"))
        assert isinstance(refused, HttpResponse)
        assert refused.code == 400


async def test_internal_error_is_logged_and_not_sent_to_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, logged_bugs: LoggedBugs
) -> None:
    """The client gets a plain 500 without the traceback."""
    rig = NodeRig(tmp_path)
    front = rig.front(FixedJudge(("get", "proxy")), checks={"broken": lambda: 1 // 0 * ""})
    answer = await front.answer(asked("GET", "/healthz"))
    assert isinstance(answer, HttpResponse)
    assert (answer.code, b"ZeroDivision" in answer.body) == (500, False)
    assert "request failed" in caplog.text
    logged_bugs.found.clear()
