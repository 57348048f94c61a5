"""SIGUSR1 makes a running server write a backup of its database."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl import Kubectl
from pykubelet_process import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path).start()
    yield made
    assert made.stop() == 0


def back_up(server: ServerProcess) -> None:
    """Request a backup and wait until it is written."""
    server.lines.clear()
    os.kill(server.pid, signal.SIGUSR1)
    assert server.has_said("backup written", within_seconds=30)


def test_copy_has_all_that_was_there_and_starts_another_server(server: ServerProcess, tmp_path: Path) -> None:
    """A new backup replaces the previous one, has mode 0600, and leaves no partial copy."""
    kubectl = Kubectl(server.kubeconfig, "default", tmp_path / "cache")
    kubectl("create", "configmap", "first")
    back_up(server)
    kubectl("create", "configmap", "second")
    (server.data / "backup.db.new").write_text("half of a copy")
    back_up(server)
    kubectl("create", "configmap", "third")
    copy = server.data / "backup.db"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in server.data.glob("backup*")) == ["backup.db"]

    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True, mode=0o700)
    shutil.copy(copy, elsewhere / "data/state.db")
    shutil.copytree(server.data / "pki", elsewhere / "data/pki")
    other = ServerProcess(elsewhere).start()
    try:
        found = Kubectl(other.kubeconfig, "default", elsewhere / "cache")("get", "configmaps", "-o", "name").split()
        assert {"configmap/first", "configmap/second"} <= set(found)
        assert "configmap/third" not in found
    finally:
        assert other.stop() == 0


def test_failed_backup_is_logged_and_the_server_goes_on(server: ServerProcess, tmp_path: Path) -> None:
    """The next backup succeeds once the obstacle is removed."""
    obstacle = server.data / "backup.db"
    obstacle.mkdir()
    os.kill(server.pid, signal.SIGUSR1)
    assert server.has_said("backup cannot be written", within_seconds=30)
    assert "default" in Kubectl(server.kubeconfig, "default", tmp_path / "cache")("get", "namespaces", "-o", "name")
    obstacle.rmdir()
    back_up(server)
