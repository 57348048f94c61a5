"""kubectl exec, attach, port-forward and cp with containers that are processes, by WebSocket and by SPDY."""

import os
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from node_cluster import SPDY, WEB_SOCKET
from process_cluster import ProcessCluster, WebPod, free_port, pod, shell
from requirements import has_mount_namespaces, missing
from terminal import Terminal

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"
PLACE = "/no/such/place"


@pytest.fixture(params=[WEB_SOCKET, SPDY], ids=["websocket", "spdy"], autouse=True)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Select kubectl's streaming protocol."""
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def shop(cluster: ProcessCluster) -> str:
    """A pod to run commands in."""
    cluster.run(pod("shop", shell(FOREVER, env=[{"name": "WORD", "value": "hello"}])))
    return "shop"


@pytest.fixture(scope="module")
def store(cluster: ProcessCluster) -> str:
    """A pod with a volume that only the first of its two containers mounts."""
    if not has_mount_namespaces:
        missing("this user cannot make mount namespaces")
    main = shell(FOREVER, volumeMounts=[{"name": "data", "mountPath": PLACE}])
    cluster.run(pod("store", main, shell(FOREVER, "other"), volumes=[{"name": "data", "emptyDir": {}}]))
    return "store"


@contextmanager
def terminal(cluster: ProcessCluster, *arguments: str) -> Iterator[Terminal]:
    """Run kubectl in a terminal of 33 rows and 77 columns."""
    made = Terminal(*cluster.kubectl.command(*arguments), rows=33, columns=77)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("code", [0, 3, 137])
def test_exec_returns_output_and_exit_code_of_its_command(cluster: ProcessCluster, shop: str, code: int) -> None:
    """The command has the container's environment, and stdout and stderr stay separate."""
    script = f"echo $WORD; echo error >&2; exit {code}"
    done = cluster.kubectl.run("exec", shop, "--", "sh", "-c", script, code=code)
    assert done.stdout == "hello\n"
    assert done.stderr == "error\n" + (f"command terminated with exit code {code}\n" if code else "")


def test_exec_takes_input_and_sees_what_its_container_sees(cluster: ProcessCluster, store: str) -> None:
    """A file in a volume is not visible in a container that does not mount it."""
    given = "line\n" * 20_000
    assert cluster.kubectl("exec", "-i", store, "-c", "main", "--", "tee", f"{PLACE}/given", text=given) == given
    assert cluster.kubectl("exec", store, "-c", "main", "--", "cat", f"{PLACE}/given") == given
    cluster.kubectl.run("exec", store, "-c", "other", "--", "test", "-e", PLACE, code=1)


def test_exec_reports_what_cannot_be_run(cluster: ProcessCluster, shop: str, request: pytest.FixtureRequest) -> None:
    """The program or the container does not exist, or the pod has ended."""
    assert "no-such-program" in cluster.kubectl.fails("exec", shop, "--", "no-such-program")
    assert "container nobody is not valid" in cluster.kubectl.fails("exec", shop, "-c", "nobody", "--", "true")
    ended = f"ended-{request.node.callspec.id}"
    cluster.finish(pod(ended, shell("true"), restartPolicy="Never"))
    refused = cluster.kubectl.fails("exec", ended, "--", "true")
    assert "cannot exec into a container in a completed pod; current phase is Succeeded" in refused


def test_exec_with_a_tty_is_an_interactive_shell(cluster: ProcessCluster, shop: str) -> None:
    """It has the size of the terminal, passes on Ctrl-C, and returns the exit code of the shell."""
    with terminal(cluster, "exec", "-it", shop, "--", "env", "PS1=ready> ", "sh") as screen:
        screen.until("ready> ")
        # The size is sent on a channel of its own and may arrive late.
        screen.type("until stty size | grep -q 33; do sleep 0.02; done; stty size; tty\r")
        screen.until("33 77\r\n")
        screen.until("/dev/pts/")
        screen.until("ready> ")
        screen.type("sh -c 'echo begin-$((6 * 7)); exec sleep 1000'\r")
        screen.until("begin-42\r\n")
        screen.type("\x03")
        screen.until("ready> ")
        screen.type("exit 7\r")
        screen.until("command terminated with exit code 7")
        assert screen.process.wait(30) == 7


def test_attach_reaches_the_program_of_a_container(cluster: ProcessCluster, request: pytest.FixtureRequest) -> None:
    """The program gets the input and kubectl the output; detaching does not end it, and its exit ends kubectl."""
    name = f"attached-{request.node.callspec.id}"
    script = "while read -r word; do echo got $word; test $word = end && exit 5; done"
    cluster.run(pod(name, shell(script, stdin=True, tty=True), restartPolicy="Never"))
    with terminal(cluster, "attach", "-it", name) as screen:
        screen.type("first\r")
        screen.until("got first\r\n")
    assert cluster.pod(name)["status"]["phase"] == "Running"
    with terminal(cluster, "attach", "-it", name) as screen:
        screen.type("end\r")
        screen.until("got end\r\n")
        screen.process.wait(30)
    cluster.until_field(".status.phase", "Failed", name)
    assert cluster.pod(name)["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert "got first" in cluster.kubectl("logs", name)


def test_attach_once_ends_the_input_of_a_container(cluster: ProcessCluster, request: pytest.FixtureRequest) -> None:
    """With stdinOnce, the end of kubectl's input is EOF for the program."""
    name = f"fed-{request.node.callspec.id}"
    cluster.run(pod(name, shell("sort; exit 6", stdin=True, stdinOnce=True), restartPolicy="Never"))
    assert cluster.kubectl("attach", "-i", name, text="two\none\n").splitlines()[-2:] == ["one", "two"]
    cluster.until_field(".status.phase", "Failed", name)
    assert cluster.kubectl("logs", name) == "one\ntwo\n"


def test_port_forward_carries_connections(cluster: ProcessCluster, web: WebPod) -> None:
    """Several run at once, each with all of its bytes."""
    with cluster.kubectl.start("port-forward", f"pod/{web.name}", f":{web.port}") as forward:
        assert forward.stdout is not None
        where = forward.stdout.readline().removeprefix("Forwarding from ").partition(" ")[0]

        def fetch(_: int) -> bytes:
            with urllib.request.urlopen(f"http://{where}/file", timeout=30) as answer:
                return bytes(answer.read())

        with ThreadPoolExecutor(8) as pool:
            fetched = list(pool.map(fetch, range(16)))
        forward.terminate()
    assert set(fetched) == {web.content}


def test_port_forward_says_why_a_connection_fails(cluster: ProcessCluster, shop: str) -> None:
    """When the target port is closed, the connection closes without data and kubectl prints the reason."""
    port = free_port()
    with cluster.kubectl.start("port-forward", f"pod/{shop}", f":{port}") as forward:
        assert forward.stdout is not None
        assert forward.stderr is not None
        where = forward.stdout.readline().removeprefix("Forwarding from ").partition(" ")[0]
        host, _, number = where.rpartition(":")
        with socket.create_connection((host, int(number)), timeout=30) as connection, suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        told = next(line for line in forward.stderr if "an error occurred forwarding" in line)
        forward.terminate()
    assert f"-> {port}" in told
    assert f"127.0.0.1:{port}: connect: connection refused" in told


def test_cp_copies_files_and_folders_both_ways(cluster: ProcessCluster, store: str, tmp_path: Path) -> None:
    """The target is in a volume that only the container sees."""
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep/file").write_bytes(os.urandom(300_000))
    (source / "small").write_text("words\n")
    cluster.kubectl("cp", str(source), f"{store}:{PLACE}/{tmp_path.name}", "-c", "main")
    cluster.kubectl("cp", f"{store}:{PLACE}/{tmp_path.name}", str(tmp_path / "back"), "-c", "main")
    assert (tmp_path / "back/deep/file").read_bytes() == (source / "deep/file").read_bytes()
    assert (tmp_path / "back/small").read_text() == "words\n"
