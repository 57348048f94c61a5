"""The permissions of every folder and file that a cluster with process containers keeps on disk."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl import Kubectl
from process_cluster import PATIENCE
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
MANIFEST = """
apiVersion: v1
kind: Secret
metadata: {name: words}
stringData: {password: secret}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: example/main:1
    command: [sleep, "1000"]
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: words, key: password}}}]
    volumeMounts: [{name: words, mountPath: /words}, {name: scratch, mountPath: /scratch}]
  volumes: [{name: words, secret: {secretName: words}}, {name: scratch, emptyDir: {}}]
"""
_POD = r"node/pods/[-0-9a-f]+"
_CONTAINER = r"node/process/containers/[0-9a-f]+"
MODES = {
    r"": 0o700,
    # Keys, credentials and objects.
    r"pki|node/pki": 0o700,
    r"(node/)?pki/[\w-]+\.key": 0o600,
    r"(node/)?pki/[\w-]+\.crt": 0o644,
    r"admin\.kubeconfig|audit\.log|page-link|state\.db.*|node/node\.json": 0o600,
    # The environments of containers.
    r"node/process(/containers|/sandboxes)?": 0o700,
    rf"{_CONTAINER}|{_CONTAINER}/root|node/process/sandboxes/[0-9a-f]+": 0o700,
    rf"{_CONTAINER}/work": 0o755,
    rf"({_CONTAINER}|node/process/sandboxes/[0-9a-f]+)/\w+\.json(\.spare)?|node/kubelet\.lock|node/process/lock": 0o600,
    # Logs, in folders that collectors may list.
    r"node/logs(/containers|/pods(/[^/]+){0,2})?": 0o755,
    r"node/logs/pods/[^/]+/[^/]+/\d+\.log": 0o640,
    # Only the node enters the folders of pods. What is in volumes belongs to containers of any user.
    rf"node|node/pods|{_POD}|{_POD}/(plugins|containers(/\w+)?|volumes(/[\w.~-]+)?)": 0o750,
    rf"{_POD}/etc-hosts": 0o644,
    rf"{_POD}/containers/\w+/\w+": 0o666,
    rf"{_POD}/volumes/[\w.~-]+/\w+": 0o777,
}
_INSIDE_VOLUMES = re.compile(rf"{_POD}/volumes/[^/]+/[^/]+/.+")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(MANIFEST)
    process = UpProcess(tmp_path, str(manifest), runtime="process").start()
    kubectl = Kubectl(process.kubeconfig, "default", tmp_path / "cache")
    try:
        kubectl("wait", "--for=create", PATIENCE, "pod/web-node-1")
        kubectl("wait", "--for=condition=Ready", PATIENCE, "pod/web-node-1")
        yield process
        manifest.unlink()
        kubectl("wait", "--for=delete", PATIENCE, "pod/web-node-1")
    finally:
        assert process.stop() == 0


def test_every_folder_and_file_has_the_documented_mode(up: UpProcess) -> None:
    """Each path has exactly one mode; a new kind of file needs a line in the table."""
    wrong, seen = {}, set()
    for path in (up.data, *up.data.rglob("*")):
        name, found = str(path.relative_to(up.data)).removeprefix("."), path.lstat().st_mode
        if not (stat.S_ISDIR(found) or stat.S_ISREG(found)) or _INSIDE_VOLUMES.fullmatch(name):
            continue
        wanted = [(pattern, mode) for pattern, mode in MODES.items() if re.fullmatch(pattern, name)]
        seen |= {pattern for pattern, _ in wanted}
        if [mode for _, mode in wanted] != [stat.S_IMODE(found)]:
            wrong[name] = f"{stat.S_IMODE(found):o}"
    assert wrong == {}
    assert seen == set(MODES)
