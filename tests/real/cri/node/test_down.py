"""`pykubelet down` with containerd, which has pods of others, too."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from containerd_lab import ContainerdLab
from cri_lab import CriLab, node_runtime, opened
from oci_images import BUSYBOX
from process_lab import unmount_below
from proxy_rig import until
from pykubelet_process import NodeProcess

pytestmark = pytest.mark.timeout(120)
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  containers:
  - {{name: main, image: '{BUSYBOX}', command: [/bin/sh, -c, 'trap "exit 0" TERM; while :; do sleep 0.1; done']}}
"""


def test_pods_of_the_folder_are_removed_and_come_back(containerd: ContainerdLab, tmp_path: Path) -> None:
    """After a kill -9; pods that the folder does not know stay."""
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "web.yaml").write_text(POD)
    used = node_runtime(containerd)
    node = NodeProcess(tmp_path, *used.options, "--manifests", str(tmp_path / "pods"))
    command = [sys.executable, "-m", "pykubelet", "down", "--data-dir", str(tmp_path)]
    command += ["--cri-socket", str(containerd.socket)]

    async def run_another() -> str:
        async with opened(containerd) as found:
            lab = CriLab(found, tmp_path)
            pod = lab.pod("sleep", "1000")
            await lab.run(pod)
            return pod.metadata.name

    try:
        node.start()
        until(lambda: "web-node-1" in containerd.ready_sandboxes())
        other = asyncio.run(run_another())
        node.kill()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "stopping 1 pod\n" in done.stderr
        assert set(containerd.ready_sandboxes()) == {other}
        again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (again.returncode, again.stderr) == (0, f"nothing is running from {tmp_path}\n")
        node.start()
        until(lambda: "web-node-1" in containerd.ready_sandboxes())
    finally:
        if node.is_running:
            node.kill()
        used.end(tmp_path / "node")
        unmount_below(tmp_path)
