"""A data folder whose database, machine name or port is not what it was: the start is refused until the user decides."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl import Kubectl
from process_lab import end_containers
from pykubelet_process import NodeProcess, ServerProcess, UpProcess

pytestmark = pytest.mark.timeout(120)
PATIENCE = "--timeout=30s"
READY = ("wait", "--for=condition=Ready", PATIENCE)
CLUSTER_ID = "jsonpath={.metadata.uid}"


def kubectl_of(up: UpProcess) -> Kubectl:
    return Kubectl(up.kubeconfig, "default", up.data.parent / "cache")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    """A cluster that was stopped; its pod `web`, which is in no file, still runs."""
    made = UpProcess(tmp_path)
    try:
        made.start()
        kubectl = kubectl_of(made)
        kubectl(
            "run", "web", "--image=any", "--command", "--", "sh", "-c", f"echo $$$$ > {tmp_path}/pid; exec sleep 600"
        )
        kubectl(*READY, "pod/web")
        assert made.stop() == 0
        yield made
    finally:
        if made.is_running:
            made.kill()
        end_containers(made.data / "node" / "process")


def container_runs(up: UpProcess) -> bool:
    """Whether the container of `web` is the process that it was."""
    pid = int((up.data.parent / "pid").read_text())
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    except FileNotFoundError:
        return False


def test_database_that_is_not_the_clusters_is_refused_and_no_pod_is_stopped(up: UpProcess) -> None:
    """Each refusal says what is wrong and what to do, and changes no file. With the database back, all is as before."""
    path, saved = up.data / "state.db", up.data.parent / "saved.db"
    shutil.copy(path, saved)
    path.write_bytes(b"")
    assert up.refusal().startswith(f"{path} is empty (0 bytes): its objects are lost; restore a backup of it")
    assert path.read_bytes() == b""
    path.unlink()
    refusal = up.refusal()
    assert f"{path} is missing, although admin.kubeconfig shows that there was one; restore a backup" in refusal
    assert "or start an empty cluster with --new, which stops the pods of the old one and keeps its files" in refusal
    assert not path.exists()

    other_folder = up.data.parent / "other"
    other_folder.mkdir()
    server = ServerProcess(other_folder).start()
    assert server.stop() == 0
    shutil.copy(server.data / "state.db", path)
    assert f"{up.data}/node has the pods of another cluster" in up.refusal()
    assert container_runs(up)

    shutil.copy(saved, path)
    up.start()
    kubectl_of(up)(*READY, "pod/web")
    assert container_runs(up)


def test_new_starts_an_empty_cluster_and_keeps_the_database(up: UpProcess) -> None:
    """The pods of the old cluster are stopped. A running cluster is not replaced."""
    up.options = ("--new",)
    up.start()
    kubectl = kubectl_of(up)
    assert "No resources found" in kubectl.run("get", "pods").stderr
    new = kubectl("get", "namespace", "kube-system", "-o", CLUSTER_ID)
    second = UpProcess(up.data.parent, "--new", runtime="sim")
    assert f"{up.data} is in use by pykubelet up (process {up.pid}, folder {up.data}): stop it" in second.refusal()
    assert kubectl("get", "namespace", "kube-system", "-o", CLUSTER_ID) == new
    up.options = ()
    assert up.stop() == 0

    (up.data / "state.db.old-1").replace(up.data / "state.db")
    assert "has the pods of another cluster" in up.refusal()
    (up.data / "node/node.json").unlink()
    up.start()
    assert "web" in kubectl("get", "pods", "-o", "name")


def test_apiserver_refuses_a_database_too(tmp_path: Path) -> None:
    """A server that was killed at its first start, before it had a database, starts again."""
    server = ServerProcess(tmp_path)
    server.data.mkdir(mode=0o700)
    (server.data / "state.db").write_bytes(b"")
    assert "state.db is empty (0 bytes)" in server.refusal()
    fresh = ServerProcess(tmp_path, "--new").start()
    assert fresh.stop() == 0
    assert (server.data / "state.db.old-1").read_bytes() == b""
    (server.data / "state.db").unlink()
    assert "state.db is missing, although admin.kubeconfig shows" in server.refusal()
    (server.data / "admin.kubeconfig").unlink()
    (server.data / "audit.log").unlink()
    assert server.start().stop() == 0


def test_changed_machine_name_needs_a_decision(tmp_path: Path) -> None:
    """The old name continues; a new one moves the pods at once and leaves nothing of the old node."""
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods/web.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: any}]}\n"
    )
    up = UpProcess(tmp_path, str(tmp_path / "pods"), runtime="sim").start()
    kubectl = kubectl_of(up)
    kubectl("create", "deployment", "app", "--image=any", "--replicas=2")
    kubectl("rollout", "status", PATIENCE, "deployment/app")
    before = kubectl("get", "pods", "-o", "name")
    assert up.stop() == 0

    up.name, hostname = "", os.uname().nodename.lower()
    refusal = up.refusal()
    assert f"{up.data}/node belongs to node node-1, but this machine is called {hostname}: " in refusal
    assert f"--node-name node-1 goes on as before; --node-name {hostname} takes the new name" in refusal
    up.name = "node-1"
    up.start()
    assert kubectl("get", "pods", "-o", "name") == before
    assert up.stop(signal.SIGINT) == 0

    up.name = "node-2"
    up.start()
    assert up.has_said("node node-1 and its pods (3) are removed: this node is now called node-2")
    kubectl("wait", "--for=create", PATIENCE, "pod/web-node-2")
    kubectl("rollout", "status", PATIENCE, "deployment/app")
    places = kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
    assert places == "node-2 node-2 node-2"
    assert kubectl("get", "nodes", "-o", "name") == "node/node-2\n"
    assert up.stop() == 0


def test_node_command_refuses_the_folder_of_another_node(tmp_path: Path) -> None:
    """The chosen new name is taken, with a reminder to delete the old node."""
    options = ("--runtime", "sim", "--manifests", str(tmp_path / "pods"))
    node = NodeProcess(tmp_path, *options).start()
    assert node.stop() == 0
    unnamed = NodeProcess(tmp_path, *options, name="")
    assert f"{tmp_path}/node belongs to node node-1, but this machine is called " in unnamed.refusal()
    other = NodeProcess(tmp_path, *options, name="node-2").start()
    assert other.has_said("node node-1 is now called node-2: delete node node-1 in its cluster")
    assert other.stop() == 0


def test_second_program_says_who_has_its_port_or_folder(tmp_path: Path) -> None:
    """The message names the process, its folder, and the option that avoids the conflict."""
    (tmp_path / "second").mkdir()
    first, second = UpProcess(tmp_path, runtime="sim").start(), UpProcess(tmp_path / "second", runtime="sim")
    second.port = first.port
    assert second.refusal() == (
        f"port {first.port} of 127.0.0.1 is in use by pykubelet up (process {first.pid}, folder {first.data}): "
        "stop it, or choose another port with --port (0: any free one)"
    )
    same = UpProcess(tmp_path, runtime="sim")
    same.port = first.port
    holder = f"pykubelet up (process {first.pid}, folder {first.data})"
    assert same.refusal() == f"{holder} runs on this folder already: stop it first"
    same.port = 0
    assert same.refusal() == f"{first.data} is in use by {holder}: stop it, or choose another --data-dir"
    kubeconfig = ("--kubeconfig", str(first.kubeconfig), "--runtime", "process", "--port", str(first.port))
    node = NodeProcess(tmp_path, *kubeconfig)
    assert f"the node's API: port {first.port} of 127.0.0.1 is in use by {holder}" in node.refusal()
    assert first.stop() == 0


@pytest.mark.parametrize("runtime", ["process", "sim"])
def test_second_node_says_who_has_its_folder(tmp_path: Path, runtime: str) -> None:
    """Two kubelets with one folder would stop each other's pods; a killed one does not keep the folder."""
    options = ("--runtime", runtime, "--manifests", str(tmp_path / "pods"))
    first, second = NodeProcess(tmp_path, *options).start(), NodeProcess(tmp_path, *options)
    root = tmp_path / "node"
    holder = f"pykubelet node (process {first.pid}, folder {root})"
    assert second.refusal() == f"{root} is in use by {holder}: stop it, or choose another folder"
    first.kill()
    second.start()
    assert second.stop() == 0
