"""`pykubelet logs`, `exec` and `port-forward` with containers that are processes."""

import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from cli_lab import Pykubelet
from process_cluster import ProcessCluster, WebPod, free_port, pod, process_cluster, serve_file, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
LABELS = {"app": "shop"}
TALK = "echo one; echo two; echo three; exec sleep 1000"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def pykubelet(cluster: ProcessCluster) -> Pykubelet:
    return Pykubelet(cluster.server.kubeconfig)


@pytest.fixture(scope="module")
def shop(cluster: ProcessCluster) -> str:
    """A pod of two containers that print lines, and a service for it."""
    cluster.run(pod("shop", shell(TALK, env=[{"name": "WORD", "value": "hello"}]), shell(TALK, "side"), labels=LABELS))
    ports = [{"port": 80, "targetPort": 18080}]
    service = {"metadata": {"name": "shop"}, "spec": {"selector": LABELS, "ports": ports}}
    cluster.create({"apiVersion": "v1", "kind": "Service", **service})
    return "shop"


@pytest.fixture(scope="module")
def web(cluster: ProcessCluster, tmp_path_factory: pytest.TempPathFactory) -> WebPod:
    """A pod that serves a file on the machine's loopback."""
    return serve_file(cluster, tmp_path_factory.mktemp("web"))


def test_logs_are_those_of_kubectl(cluster: ProcessCluster, pykubelet: Pykubelet, shop: str) -> None:
    """The output matches for one or all containers, limits, prefixes, timestamps and selectors."""
    for words in (
        ("logs", shop),
        ("logs", shop, "-c", "side"),
        ("logs", shop, "side", "--tail=1"),
        ("logs", shop, "--tail=0"),
        ("logs", shop, "--all-containers", "--tail=1", "--prefix"),
        ("logs", "-l", "app=shop", "-c", "main", "--since=1h"),
        ("logs", f"svc/{shop}", "-c", "main", "--limit-bytes=5"),
        ("logs", shop, "-c", "main", "--timestamps"),
    ):
        theirs, ours = cluster.kubectl.run(*words), pykubelet.run(*words)
        # kubectl prints the containers in random order.
        in_order = sorted if "--all-containers" in words else list
        assert in_order(ours.stdout.splitlines()) == in_order(theirs.stdout.splitlines())
        assert ours.stderr == theirs.stderr


def test_logs_report_a_missing_pod_container_or_previous_run(pykubelet: Pykubelet, shop: str) -> None:
    """A namespace has no pods to select, and conflicting options are a usage error."""
    assert pykubelet.fails("logs", "nobody") == 'Error from server (NotFound): pods "nobody" not found\n'
    assert "container nobody is not valid for pod shop" in pykubelet.fails("logs", shop, "-c", "nobody")
    assert "previous terminated container" in pykubelet.fails("logs", shop, "-c", "main", "-p")
    assert "has no selector" in pykubelet.fails("logs", "ns/default")
    assert "Error: " in pykubelet.fails("logs", code=2)
    assert "Error: " in pykubelet.fails("logs", shop, "--since=1h", "--since-time=2026-01-01T00:00:00Z", code=2)


def test_logs_are_followed_to_the_end_of_the_container(cluster: ProcessCluster, pykubelet: Pykubelet) -> None:
    """Lines arrive as they are written, and lines of two containers do not mix."""
    script = "echo begin; while ! test -e $PWD/go; do sleep 0.1; done; echo end"
    gate = cluster.server.data.parent / "gate"
    gate.mkdir()
    waiting = shell(script.replace("$PWD", str(gate)))
    cluster.run(pod("talker", waiting, shell(script.replace("$PWD", str(gate)), "side"), restartPolicy="Never"))
    with pykubelet.start("logs", "-f", "talker", "--all-containers", "--prefix") as follow:
        assert follow.stdout is not None
        first = {follow.stdout.readline() for _ in range(2)}
        assert first == {"[pod/talker/main] begin\n", "[pod/talker/side] begin\n"}
        (gate / "go").touch()
        assert set(follow.stdout) == {"[pod/talker/main] end\n", "[pod/talker/side] end\n"}
        assert follow.wait(30) == 0


@pytest.mark.parametrize("code", [0, 3, 137])
def test_exec_returns_output_and_exit_code_of_its_command(pykubelet: Pykubelet, shop: str, code: int) -> None:
    """The command has the container's environment, and stdout and stderr stay separate."""
    script = f"echo $WORD; echo error >&2; exit {code}"
    done = pykubelet.run("exec", shop, "-c", "main", "--", "sh", "-c", script, code=code)
    assert done.stdout == "hello\n"
    assert done.stderr == "error\n" + (f"command terminated with exit code {code}\n" if code else "")


def test_exec_passes_stdin_to_the_command(pykubelet: Pykubelet, shop: str) -> None:
    """All of it arrives, and then EOF; without -i the command reads EOF at once."""
    given = "".join(f"line {number}\n" for number in range(30_000))
    assert pykubelet("exec", "-i", shop, "-q", "--", "cat", text=given) == given
    assert pykubelet("exec", f"svc/{shop}", "-q", "--", "cat") == ""


def test_exec_with_a_tty_option_but_no_terminal_warns_and_goes_on(pykubelet: Pykubelet, shop: str) -> None:
    done = pykubelet.run("exec", "-it", shop, "-q", "--", "tty", text="x", code=1)
    assert done.stdout == "not a tty\n"
    assert done.stderr.startswith("Unable to use a TTY")


def test_exec_reports_what_cannot_be_run(cluster: ProcessCluster, pykubelet: Pykubelet, shop: str) -> None:
    """The program, container or pod does not exist, the pod has ended, or no command was given."""
    assert "no-such-program" in pykubelet.fails("exec", shop, "--", "no-such-program")
    refused = pykubelet.fails("exec", shop, "-c", "nobody", "--", "true")
    assert refused == "Error from server (BadRequest): container nobody is not valid for pod shop\n"
    assert "not found" in pykubelet.fails("exec", "nobody", "--", "true")
    assert "Error: " in pykubelet.fails("exec", shop, code=2)
    cluster.finish(pod("ended", shell("true"), restartPolicy="Never"))
    assert "current phase is Succeeded" in pykubelet.fails("exec", "ended", "--", "true")


def test_exec_with_a_tty_is_an_interactive_shell(pykubelet: Pykubelet, shop: str) -> None:
    """It follows the size of the terminal, passes on Ctrl-C, and returns the exit code of the shell."""
    with pykubelet.terminal("exec", "-it", shop, "-c", "main", "--", "env", "PS1=ready> ", "sh") as screen:
        screen.until("ready> ")
        # The size is sent on a channel of its own and may arrive late.
        screen.type("until stty size | grep -q 33; do sleep 0.02; done; stty size; tty\r")
        screen.until("33 77\r\n")
        screen.until("/dev/pts/")
        screen.until("ready> ")
        screen.resize(20, 50)
        os.kill(screen.process.pid, signal.SIGWINCH)
        screen.type("until stty size | grep -q 20; do sleep 0.02; done; stty size\r")
        screen.until("20 50\r\n")
        screen.until("ready> ")
        screen.type("sh -c 'echo begin-$((6 * 7)); exec sleep 1000'\r")
        screen.until("begin-42\r\n")
        screen.type("\x03")
        screen.until("ready> ")
        screen.type("exit 7\r")
        screen.until("command terminated with exit code 7")
        assert screen.process.wait(30) == 7


def test_terminal_is_as_it_was_after_the_end(pykubelet: Pykubelet, shop: str) -> None:
    """The settings of the terminal are restored even when SIGTERM ends the program."""
    with pykubelet.terminal("exec", "-it", shop, "-c", "main", "--", "env", "PS1=ready> ", "sh") as screen:
        before = screen.settings()
        screen.until("ready> ")
        assert screen.settings() != before
        screen.process.terminate()
        assert screen.process.wait(30) == 143
        assert screen.settings() == before


def forwarded(forward: "subprocess.Popen[str]") -> str:
    """The loopback address that a port-forward listens on."""
    assert forward.stdout is not None
    where = forward.stdout.readline().removeprefix("Forwarding from ").partition(" ")[0]
    assert where.startswith("127.0.0.1:")
    return where


def test_port_forward_carries_connections(pykubelet: Pykubelet, web: WebPod) -> None:
    """Several run at once, each with all of its bytes; SIGTERM ends the command."""
    with pykubelet.start("port-forward", f"pod/{web.name}", f":{web.port}") as forward:
        where = forwarded(forward)

        def fetch(_: int) -> bytes:
            with urllib.request.urlopen(f"http://{where}/file", timeout=30) as answer:
                return bytes(answer.read())

        with ThreadPoolExecutor(8) as pool:
            fetched = list(pool.map(fetch, range(16)))
        forward.send_signal(signal.SIGTERM)
        assert forward.wait(30) == 143
    assert set(fetched) == {web.content}


def test_port_forward_says_why_a_connection_fails(pykubelet: Pykubelet, shop: str) -> None:
    """When the target port is closed, the connection closes without data and stderr has the reason."""
    port = free_port()
    with pykubelet.start("port-forward", shop, f":{port}") as forward:
        assert forward.stderr is not None
        host, _, number = forwarded(forward).rpartition(":")
        with socket.create_connection((host, int(number)), timeout=30) as connection, suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        told = forward.stderr.readline()
    assert f"-> {port}" in told
    assert "connection refused" in told


def test_port_forward_finds_the_port_of_a_service(cluster: ProcessCluster, pykubelet: Pykubelet, web: WebPod) -> None:
    """The port of the service maps to a different target port of the pod."""
    ports = [{"port": 80, "targetPort": web.port}]
    spec = {"selector": {"app": "web"}, "ports": ports}
    cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
    with pykubelet.start("port-forward", "svc/web", ":80") as forward:
        where = forwarded(forward)
        with urllib.request.urlopen(f"http://{where}/file", timeout=30) as answer:
            assert answer.read() == web.content


def test_port_forward_reports_a_missing_pod_or_an_unusable_port(pykubelet: Pykubelet, shop: str) -> None:
    """The port is invalid or already in use."""
    assert "not found" in pykubelet.fails("port-forward", "nobody", ":80")
    assert "Error: " in pykubelet.fails("port-forward", shop, "x:80", code=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = pykubelet.fails("port-forward", "--address", "127.0.0.1", shop, f"{port}:80")
    assert f"unable to listen on port {port}" in told
