"""The generated reference matches the code and describes every file in the data folder."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from document_session import ROOT
from kubectl import Kubectl
from process_lab import end_containers
from pykubelet_process import UpProcess

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, image: any, command: [sleep, "1000"], volumeMounts: [{name: v, mountPath: /no/such}]}]
  volumes: [{name: v, emptyDir: {}}]
"""
ROW = re.compile(r"^\| `([^`]+)` \| (\d{4})? ?\|", re.MULTILINE)


def test_reference_pages_are_up_to_date() -> None:
    """A changed option requires `tools/generate_reference.py` to run again."""
    command = [sys.executable, "tools/generate_reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.timeout(120)
def test_files_of_the_data_folder_are_all_described(tmp_path: Path) -> None:
    """The documented modes match those on disk."""
    described = dict(ROW.findall((ROOT / "docs/reference/settings.md").read_text().partition("## Files")[2]))
    assert "state.db" in described
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods/web.yaml").write_text(POD)
    up = UpProcess(tmp_path, str(tmp_path / "pods")).start()
    try:
        kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
        kubectl("wait", "--for=create", "--timeout=30s", "pod/web-node-1")
        kubectl("wait", "--for=condition=Ready", "--timeout=30s", "pod/web-node-1")
        os.kill(up.pid, signal.SIGUSR1)
        assert up.has_said("backup written", within_seconds=30)
        found = {path.relative_to(up.data).as_posix(): path for path in up.data.rglob("*") if not path.is_dir()}
        wrong = {
            name: oct(path.stat().st_mode)
            for name, rights in described.items()
            if rights and (path := up.data / name).stat().st_mode & 0o7777 != int(rights, 8)
        }
    finally:
        assert up.stop() == 0
        end_containers(up.data / "node" / "process")
    assert wrong == {}
    folders = tuple(name for name in described if name.endswith("/") and name != "node/")
    assert sorted(name for name in found if name not in described and not name.startswith(folders)) == []
