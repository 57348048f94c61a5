"""`pykubelet up` with StatefulSets whose volumes outlive pods, programs and claims."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubectl import Kubectl
from process_cluster import shell
from pykubelet_process import UpProcess

PATIENCE = "--timeout=60s"
# Writes its start behind those before it, and is ready when that is done.
_SCRIPT = 'echo "start of $POD" >> /data/starts; exec sleep 1000'


class VolumeScenario:
    """`up` with StatefulSets whose pods write into their volumes."""

    def __init__(self, up: UpProcess, cache: Path) -> None:
        self.up, self.kubectl = up, Kubectl(up.kubeconfig, "default", cache)

    def create_set(self, name: str) -> Path:
        """A StatefulSet with one pod and a claim; returns the folder of its volume once the pod is ready."""
        named = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        mount = {"name": "data", "mountPath": "/data"}
        container = shell(
            _SCRIPT,
            env=[named],
            volumeMounts=[mount],
            readinessProbe={"exec": {"command": ["/bin/sh", "-c", "test -s /data/starts"]}, "periodSeconds": 1},
        )
        requests = {"requests": {"storage": "1Gi"}}
        template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
        spec = {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, **template},
            "volumeClaimTemplates": [
                {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests}}
            ],
        }
        body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}
        self.kubectl("create", "-f", "-", text=json.dumps(body))
        self.until_ready(name)
        claim = self.get("pvc", f"data-{name}-0")
        return Path(self.up.data, "volumes", claim["spec"]["volumeName"])

    def until_ready(self, name: str) -> None:
        self.kubectl("rollout", "status", f"statefulset/{name}", PATIENCE)

    def replace_pod(self, name: str) -> None:
        """Deletes the pod of a set and waits for the next one."""
        self.kubectl("delete", "pod", f"{name}-0", PATIENCE)
        self.kubectl("wait", "--for=create", f"pod/{name}-0", PATIENCE)
        self.until_ready(name)

    def retain(self, volume: str) -> None:
        patch = json.dumps({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        self.kubectl("patch", "pv", volume, "-p", patch)

    def remove_with_claim(self, name: str) -> None:
        """Deletes a set and its claim, and waits until both are gone."""
        self.kubectl("delete", "statefulset", name, PATIENCE)
        self.kubectl("delete", "pvc", f"data-{name}-0", PATIENCE)

    def get(self, *what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", *what, "-o", "json"))
        return found


@contextmanager
def volume_scenario(up: UpProcess, folder: Path, end: Callable[[Path], None]) -> Iterator[VolumeScenario]:
    """Starts `up`; afterwards stops it, and its containers with `end`."""
    try:
        up.start()
        yield VolumeScenario(up, folder / "cache")
        assert up.stop() == 0
        assert [line for line in up.lines if "Traceback" in line or " E " in line] == []
    finally:
        if up.is_running:
            up.kill()
        end(up.data / "node")
