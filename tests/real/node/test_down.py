"""`pykubelet down`: nothing that `up` started runs any more, and the next `up` starts it again."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kubectl import Kubectl
from process_lab import end_containers
from proxy_rig import until
from pykubelet_process import UpProcess
from requirements import needs_root
from terminal import Terminal

pytestmark = [needs_root, pytest.mark.timeout(180)]
UID = 12345
PATIENCE = "--timeout=40s"
PODS = """
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 20
  containers:
  - name: main
    image: example/image:1
    command: [/bin/sh, -c, 'echo $$$$ > {folder}/web.pid; trap "echo stopped > {folder}/web.end; exit 0" TERM; while :; do sleep 0.1; done']
    lifecycle: {{preStop: {{exec: {{command: [/bin/sh, -c, 'echo hook > {folder}/web.hook']}}}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: api}}
spec:
  selector: {{matchLabels: {{app: api}}}}
  template:
    metadata: {{labels: {{app: api}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: example/image:1
        command: [/bin/sh, -c, 'echo $$$$ > {folder}/api.pid; trap "" TERM; while :; do sleep 0.1; done']
"""


class Cluster:
    """A cluster with a static pod, which stops when it is asked to, and a Deployment's pod, which does not."""

    def __init__(self, folder: Path, uid: int) -> None:
        self.folder, self.uid = folder, uid
        self.manifests = folder / "manifests"
        self.manifests.mkdir()
        (self.manifests / "pods.yaml").write_text(PODS.format(folder=folder))
        self.process = UpProcess(folder, str(self.manifests), uid=uid)
        self.data = self.process.data
        self.kubectl = Kubectl(self.process.kubeconfig, "default", folder / "cache")

    def start(self) -> None:
        """Start it and wait until both pods are ready."""
        for path in self._pid_files():
            path.unlink(missing_ok=True)
        self.process.start()
        self.kubectl("wait", "--for=create", PATIENCE, "pod/web-node-1")
        self.kubectl("wait", "--for=condition=Ready", PATIENCE, "pod/web-node-1")
        self.kubectl("wait", "--for=condition=Available", PATIENCE, "deployment/api")

    def down(self, *options: str, uid: int | None = None) -> subprocess.CompletedProcess[str]:
        command = self.down_command(*options, uid=uid)
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, input="")

    def down_command(self, *options: str, uid: int | None = None) -> list[str]:
        user = self.uid if uid is None else uid
        switch = (
            [sys.executable, str(Path(__file__).parents[2] / "support/ordinary_user.py"), str(user)] if user else []
        )
        return [*switch, sys.executable, "-m", "pykubelet", "down", "--data-dir", str(self.data), *options]

    def pids(self) -> list[int]:
        """The containers' processes."""
        until(lambda: all(path.exists() and path.read_text() for path in self._pid_files()))
        return [int(path.read_text()) for path in self._pid_files()]

    def _pid_files(self) -> list[Path]:
        return [self.folder / f"{name}.pid" for name in ("web", "api")]

    def mounts(self) -> list[str]:
        """The mounts below the data folder."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [line.split()[4] for line in lines if line.split()[4].startswith(str(self.data))]

    def restarts(self) -> list[int]:
        """The restart counts of all containers."""
        pods = self.kubectl.json("get", "pods")["items"]
        return [one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"]]


def is_there(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(params=[0, UID], ids=["root", "ordinary user"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of root or of an ordinary user, running."""
    with TemporaryDirectory() as name:
        made = Cluster(Path(name), request.param)
        shutil.chown(name, request.param, request.param)
        try:
            made.start()
            yield made
        finally:
            if made.process.is_running:
                made.process.kill()
            if (made.data / "node/process").exists():
                end_containers(made.data / "node/process")


def test_down_ends_everything_and_up_starts_it_again(cluster: Cluster) -> None:
    """Pods get their hooks and grace periods, also while `up` runs; the data stays; a second `down` has nothing to do."""
    pids, program = cluster.pids(), cluster.process.pid
    done = cluster.down()
    assert done.returncode == 0, done.stderr
    assert f"stopping pykubelet up (process {program}, folder {cluster.data})" in done.stderr
    assert "stopping 2 pods" in done.stderr
    assert cluster.process.stop() == 0
    assert [pid for pid in pids if is_there(pid)] == []
    assert (cluster.folder / "web.end").read_text() == "stopped\n"
    assert (cluster.folder / "web.hook").read_text() == "hook\n"
    assert cluster.mounts() == []
    again = cluster.down()
    assert (again.returncode, again.stderr) == (0, f"nothing is running from {cluster.data}\n")
    cluster.start()
    assert all(is_there(pid) for pid in cluster.pids())
    assert set(pids).isdisjoint(cluster.pids())
    assert cluster.restarts() == [1, 1]


def test_down_ends_what_a_killed_up_has_left(cluster: Cluster) -> None:
    """Nothing of the program is needed."""
    cluster.process.kill()
    pids = cluster.pids()
    assert all(is_there(pid) for pid in pids)
    done = cluster.down()
    assert done.returncode == 0, done.stderr
    assert "stopping pykubelet up" not in done.stderr
    assert [pid for pid in pids if is_there(pid)] == []
    assert cluster.mounts() == []


def test_up_that_is_stopped_says_what_keeps_running(cluster: Cluster) -> None:
    """In one line, with the command that stops it."""
    assert cluster.process.stop(signal.SIGINT) == 0
    line = f"2 pods keep running; to stop: pykubelet down --data-dir {cluster.data}\n"
    assert cluster.process.has_said(line)
    assert all(is_there(pid) for pid in cluster.pids())


def test_purge_removes_the_data_but_nothing_else(cluster: Cluster) -> None:
    """It follows no links, keeps files of others, and asks first; without a terminal it needs --yes."""
    outside = cluster.folder / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    claim = cluster.data / "volumes" / "pvc-1"
    claim.mkdir(parents=True)
    (claim / "link").symlink_to(outside)
    (claim / "data").write_text("data")
    (cluster.data / "notes.txt").write_text("mine")
    for path in (claim.parent, claim):
        os.chown(path, cluster.uid, cluster.uid)
    refused = cluster.down("--purge")
    assert refused.returncode == 1
    assert refused.stderr == "error: --purge removes all data and needs a terminal to ask, or --yes\n"
    assert all(is_there(pid) for pid in cluster.pids())
    done = cluster.down("--purge", "--yes")
    assert done.returncode == 0, done.stderr
    assert "1 claimed volume\n  volume pvc-1\n" in done.stderr
    assert f"{cluster.data} is kept for files that are not of pykubelet: notes.txt" in done.stderr
    assert [path.name for path in cluster.data.iterdir()] == ["notes.txt"]
    assert (outside / "file").read_text() == "precious"
    assert [pid for pid in cluster.pids() if is_there(pid)] == []


def test_purge_asks_on_a_terminal(cluster: Cluster) -> None:
    """After everything is stopped; without the answer yes, the data stays."""
    cluster.process.kill()
    for answer, code in (("n", 1), ("y", 0)):
        terminal = Terminal(*cluster.down_command("--purge"), columns=300)
        try:
            terminal.until("Remove them for good? [y/N]")
            assert not [pid for pid in cluster.pids() if is_there(pid)]
            terminal.type(f"{answer}\n")
            terminal.until("nothing is removed" if code else f"{cluster.data} is removed")
            assert terminal.process.wait(20) == code
        finally:
            terminal.close()
        assert cluster.data.exists() == bool(code)


def test_another_user_is_refused(cluster: Cluster) -> None:
    """Nothing is ended."""
    other = 0 if cluster.uid else UID
    if other:
        # The folder above can be entered, so that the refusal is that of the command.
        cluster.folder.chmod(0o755)
    done = cluster.down(uid=other)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {cluster.data} belongs to user {cluster.uid}, not to you: run pykubelet down as that user\n"
    )
    assert all(is_there(pid) for pid in cluster.pids())


def test_folder_that_cannot_be_reached_is_an_error() -> None:
    """As that of another user: it may well have something that runs."""
    with TemporaryDirectory() as name:
        script = Path(__file__).parents[2] / "support/ordinary_user.py"
        command = [sys.executable, str(script), str(UID), sys.executable, "-m", "pykubelet", "down"]
        command += ["--data-dir", f"{name}/data"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (1, f"error: {name}/data: Permission denied\n")


def down(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pykubelet", "down", "--data-dir", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """A wrong --data-dir must not cost files, nor a link in its place."""
    (tmp_path / "node").mkdir()
    (tmp_path / "state").write_text("precious")
    done = down(tmp_path, "--purge", "--yes")
    assert (done.returncode, done.stderr) == (
        1,
        f"error: {tmp_path} is no data folder of pykubelet up: it has neither state.db nor a node\n",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node", "state"]
    link = tmp_path / "link"
    target = tmp_path / "target"
    target.mkdir()
    (target / "state.db").write_text("")
    link.symlink_to(target)
    done = down(link, "--purge", "--yes")
    assert done.returncode == 1
    assert "is a link, which --purge does not follow" in done.stderr
    assert [path.name for path in target.iterdir()] == ["state.db"]
    missing = down(tmp_path / "nowhere")
    assert (missing.returncode, missing.stderr) == (0, f"nothing is running: there is no {tmp_path}/nowhere\n")
