"""containerd is killed and restarted under a working node: no container restarts, and the work continues."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from containerd_lab import ContainerdLab, running_containerd
from cri_lab import node_runtime
from kill_pods import Shown, conditions
from process_cluster import NODE, ProcessCluster, pod, process_cluster, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"
PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1}


@pytest.fixture(scope="module")
def containerd() -> Iterator[ContainerdLab]:
    """A containerd of its own, since the tests kill it."""
    with running_containerd() as lab:
        yield lab


@pytest.fixture(scope="module")
def cluster(containerd: ContainerdLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster"), node_runtime(containerd)) as made:
        yield made


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def test_pods_outlive_containerd_and_what_was_asked_meanwhile_is_done(
    cluster: ProcessCluster, containerd: ContainerdLab, tmp_path: Path
) -> None:
    """Pods stay ready and are not restarted; exits, new pods, deletions and static pods from the outage are handled."""
    (tmp_path / "flags").mkdir()
    flags: dict[str, Any] = {"volumes": [{"name": "flags", "hostPath": {"path": str(tmp_path / "flags")}}]}
    mount: dict[str, Any] = {"volumeMounts": [{"name": "flags", "mountPath": "/flags"}]}
    ending = shell("until [ -e /flags/end ]; do sleep 0.05; done; exit 7", **mount)
    document = pod("ending", ending, restartPolicy="Never", **flags)
    cluster.create(pod("plain", shell(FOREVER)), pod("probed", shell(FOREVER, readinessProbe=PROBE)), document)
    cluster.create(pod("going", shell(FOREVER)))
    cluster.until("condition=Ready", "plain", "probed", "ending", "going")
    before = {name: cluster.pod(name) for name in ("plain", "probed")}
    node_before = conditions(cluster.kubectl.json("get", "node", NODE))
    containerd.kill()
    (tmp_path / "flags/end").touch()
    cluster.create(pod("coming", shell(FOREVER)))
    (cluster.manifests / "static.json").write_text(json.dumps(pod("static", shell(FOREVER))))
    cluster.kubectl("delete", "pod", "going", "--wait=false")
    # Probes run while containerd is down.
    pause(3)
    containerd.start()
    cluster.until("condition=Ready", "coming")
    # By a selector, since the mirror pod may not exist yet.
    mirror = ("pods", f"--field-selector=metadata.name=static-{NODE}")
    cluster.until_seen("True", "{.status.conditions[?(@.type=='Ready')].status}", *mirror)
    cluster.until("delete", "going")
    cluster.until_field(".status.phase", "Failed", "ending")
    assert cluster.pod("ending")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert {name: Shown.of(cluster.pod(name)) for name in before} == {
        name: Shown.of(shown) for name, shown in before.items()
    }
    assert conditions(cluster.kubectl.json("get", "node", NODE)) == node_before
    assert cluster.kubectl("exec", "plain", "--", "echo", "hello") == "hello\n"
    cluster.kubectl("delete", "pod", "plain", "probed", "coming", "ending")
    (cluster.manifests / "static.json").unlink()


def test_pods_that_containerd_left_half_made_are_finished(cluster: ProcessCluster, containerd: ContainerdLab) -> None:
    """containerd is killed shortly after pods are created, and again shortly after they are deleted."""
    for number, moment_seconds in enumerate((0.05, 0.15, 0.3)):
        names = [f"half-{number}-{one}" for one in range(4)]
        cluster.create(*(pod(name, shell(FOREVER), shell(FOREVER, "other")) for name in names))
        pause(moment_seconds)
        containerd.kill()
        containerd.start()
        cluster.until("condition=Ready", *names)
        cluster.kubectl("delete", "pod", "--wait=false", *names)
        pause(moment_seconds)
        containerd.kill()
        containerd.start()
        cluster.until("delete", *names)
    assert containerd.ctr("tasks", "list", "--quiet") == ""
