"""Static pods from files in a folder, with processes on the machine and mirror pods in the API."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from process_cluster import NODE, PATIENCE, ProcessCluster, pod, process_cluster, shell
from requirements import missing, needs_root

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"
# `$$`, the shell's own PID: in a command of a container, `$$` stands for one `$`.
OWN_PID = "$$$$"


class Manifests:
    """The manifest folder of the node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, file: str, document: dict[str, Any]) -> None:
        """Write a manifest as an editor does: to a temporary name, then rename it."""
        del document["spec"]["nodeName"]
        made = self.folder / f".{file}.new"
        made.write_text(json.dumps(document))
        made.rename(self.folder / file)

    def remove(self, file: str) -> None:
        (self.folder / file).unlink()

    def clear(self, cluster: ProcessCluster) -> None:
        """Remove all manifests and wait until all pods are deleted."""
        for path in self.folder.iterdir():
            path.unlink()
        cluster.kubectl("wait", "--for=delete", PATIENCE, "pods", "--all")


@pytest.fixture
def manifests(cluster: ProcessCluster) -> Iterator[Manifests]:
    """The manifest folder, emptied after each test."""
    yield Manifests(cluster.manifests)
    Manifests(cluster.manifests).clear(cluster)


def is_running(pid_file: Path) -> bool:
    """Whether the process whose PID is in this file runs."""
    return Path(f"/proc/{pid_file.read_text().strip()}").exists()


def uid_of(cluster: ProcessCluster, name: str) -> Any:
    return cluster.pod(name)["metadata"]["annotations"]["kubernetes.io/config.hash"]


def until_ready(cluster: ProcessCluster, name: str) -> None:
    """Wait until the mirror pod exists and is ready."""
    cluster.kubectl("wait", "--for=create", PATIENCE, f"pod/{name}")
    cluster.until("condition=Ready", name)


@contextmanager
def mounted(folder: Path, *what: str) -> Iterator[None]:
    """Mount something at a folder while the context lasts."""
    folder.mkdir(exist_ok=True)
    if subprocess.run(("mount", *what, str(folder)), check=False).returncode:
        missing("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), check=True)


def test_file_becomes_a_process_and_a_mirror_until_it_is_removed(
    cluster: ProcessCluster, manifests: Manifests, tmp_path: Path
) -> None:
    """Removing the file ends the process and deletes the mirror pod; the same works a second time."""
    document = pod("life", shell(f"echo {OWN_PID} >{tmp_path}/pid; {FOREVER}"))
    for _ in range(2):
        manifests.write("life.json", json.loads(json.dumps(document)))
        until_ready(cluster, "life-node-1")
        shown = cluster.pod("life-node-1")
        assert shown["metadata"]["annotations"]["kubernetes.io/config.source"] == "file"
        assert [(owner["kind"], owner["name"]) for owner in shown["metadata"]["ownerReferences"]] == [("Node", NODE)]
        assert shown["spec"]["nodeName"] == NODE
        assert is_running(tmp_path / "pid")
        manifests.remove("life.json")
        cluster.until("delete", "life-node-1")
        assert not is_running(tmp_path / "pid")


def test_edited_file_replaces_its_pod(cluster: ProcessCluster, manifests: Manifests, tmp_path: Path) -> None:
    """The old process has exited before the new one starts."""
    stop = f"trap 'echo one ended >>{tmp_path}/told; exit' TERM; while true; do sleep 0.05; done"
    manifests.write("edited.json", pod("edited", shell(stop), labels={"version": "one"}))
    cluster.until_labelled("version=one")
    old = uid_of(cluster, "edited-node-1")
    changed = pod("edited", shell(f"echo two began >>{tmp_path}/told; {FOREVER}"), labels={"version": "two"})
    manifests.write("edited.json", changed)
    cluster.until_labelled("version=two")
    assert uid_of(cluster, "edited-node-1") != old
    assert (tmp_path / "told").read_text().splitlines() == ["one ended", "two began"]


def test_file_restored_during_termination_starts_its_pod_again(
    cluster: ProcessCluster, manifests: Manifests, tmp_path: Path
) -> None:
    """Two processes of one pod never run at the same time."""
    slow = (
        f"trap 'echo end >>{tmp_path}/told; exit' TERM; echo begin >>{tmp_path}/told; while true; do sleep 0.05; done"
    )
    document = pod("back", shell(slow))
    manifests.write("back.json", json.loads(json.dumps(document)))
    until_ready(cluster, "back-node-1")
    first = cluster.container_id("back-node-1")
    away = tmp_path / "back.json"
    (manifests.folder / "back.json").rename(away)
    cluster.until_said("back-node-1", "Killing", "Stopping container main")
    away.rename(manifests.folder / "back.json")
    started = "--field-selector=reason=Started,involvedObject.name=back-node-1"
    cluster.kubectl("wait", "--for=jsonpath={.count}=2", PATIENCE, "events", started)
    until_ready(cluster, "back-node-1")
    assert cluster.container_id("back-node-1") != first
    assert (tmp_path / "told").read_text().splitlines() == ["begin", "end", "begin"]


def test_broken_edit_keeps_the_pod_running(cluster: ProcessCluster, manifests: Manifests) -> None:
    """An event has file and field of the error; the corrected file replaces the pod."""
    manifests.write("broken.json", pod("broken", shell(FOREVER), labels={"version": "good"}))
    until_ready(cluster, "broken-node-1")
    before = cluster.container_id("broken-node-1")
    manifests.write("broken.json", pod("broken", shell(FOREVER, comand=["misspelt"])))
    assert "comand" in cluster.until_said(NODE, "PodSourceProblem", "broken.json")
    assert cluster.container_id("broken-node-1") == before
    manifests.write("broken.json", pod("broken", shell(FOREVER), labels={"version": "mended"}))
    cluster.until_labelled("version=mended")
    assert cluster.container_id("broken-node-1") != before


def test_second_file_of_a_pod_is_ignored_while_the_first_exists(cluster: ProcessCluster, manifests: Manifests) -> None:
    """An event names the ignored file; the running pod is kept, even if the other file sorts first."""
    manifests.write("second.json", pod("double", shell(FOREVER), labels={"file": "second"}))
    until_ready(cluster, "double-node-1")
    before = cluster.container_id("double-node-1")
    manifests.write("first.json", pod("double", shell(FOREVER), labels={"file": "first"}))
    told = cluster.until_said(NODE, "PodSourceProblem", "first.json")
    assert told.endswith(f"pod default/double-node-1 is ignored here: {manifests.folder}/second.json defines it")
    assert cluster.container_id("double-node-1") == before
    manifests.remove("second.json")
    cluster.until_labelled("file=first")


def test_missing_manifest_folder_keeps_its_pods(cluster: ProcessCluster, manifests: Manifests) -> None:
    """When it is back, its pods still run the same containers."""
    manifests.write("stays.json", pod("stays", shell(FOREVER)))
    until_ready(cluster, "stays-node-1")
    before = cluster.container_id("stays-node-1")
    away = manifests.folder.with_name("elsewhere")
    manifests.folder.rename(away)
    cluster.until_said(NODE, "PodSourceProblem", "the pods known from it are kept")
    away.rename(manifests.folder)
    manifests.write("sign.json", pod("sign-of-return", shell(FOREVER)))
    cluster.kubectl("wait", "--for=create", PATIENCE, "pod/sign-of-return-node-1")
    assert cluster.container_id("stays-node-1") == before


@needs_root
def test_unmounted_folder_keeps_its_pods(tmp_path: Path) -> None:
    """The empty mount point removes no pods; after a remount and a restart of the node, the containers are the same."""
    manifests, disk = Manifests(tmp_path / "manifests"), ("-t", "tmpfs", "none")
    with ExitStack() as stack:
        # Unmounts propagate to the containers, as on systems that systemd has set up.
        stack.enter_context(mounted(tmp_path, "--make-shared", "--bind", str(tmp_path)))
        with mounted(manifests.folder, *disk):
            cluster = stack.enter_context(process_cluster(tmp_path))
            manifests.write("disk.json", pod("disk", shell(FOREVER)))
            until_ready(cluster, "disk-node-1")
            before = cluster.container_id("disk-node-1")
        cluster.until_said(
            NODE, "PodSourceProblem", "another, empty folder is here now; the pods known from it are kept"
        )
        with mounted(manifests.folder, *disk):
            manifests.write("disk.json", pod("disk", shell(FOREVER)))
            manifests.write("sign.json", pod("sign", shell(FOREVER)))
            assert cluster.node.stop() == 0
            cluster.node.start()
            until_ready(cluster, "sign-node-1")
            assert cluster.container_id("disk-node-1") == before
            manifests.clear(cluster)
