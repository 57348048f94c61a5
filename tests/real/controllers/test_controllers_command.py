"""`pykubelet controllers` over TLS with the shipped service account and roles, whose requests are all allowed."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from pykubelet.app.controllers import CONTROLLERS
from pykubelet_process import ControllersProcess, NodeProcess, ServerProcess

pytestmark = pytest.mark.timeout(120)
PATIENCE = "--timeout=40s"
MANIFEST = Path(__file__).parents[3] / "deploy" / "controllers.yaml"
SHIPPED = "pykubelet-controllers"
COLLECTOR = "pykubelet-garbage-collector"
NAMESPACES = "pykubelet-namespace-controller"
QUOTAS = "pykubelet-resource-quota-controller"
# A service account cannot have the key that signs certificates.
WORKLOADS = ",".join(
    name for name in CONTROLLERS if name not in ("garbage", "namespace", "resourcequota", "csrsigning")
)


class World:
    """An API server with the manifest applied, and a node with simulated containers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.server = folder, ServerProcess(folder)
        self.kubectl = Kubectl(self.server.kubeconfig, "default", folder / "cache")
        self.node = NodeProcess(folder, "--kubeconfig", str(self.server.kubeconfig), "--runtime", "sim")
        self.programs: list[ControllersProcess] = []

    def kubeconfig(self, account: str) -> Path:
        """A kubeconfig whose only credential is a token of the service account."""
        token = self.kubectl("create", "token", account, "--namespace=kube-system").strip()
        path = self.folder / f"{account}.kubeconfig"
        cluster = {"server": self.server.url, "certificate-authority": str(self.server.data / "pki" / "ca.crt")}
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "current-context": "it",
        }
        path.write_text(json.dumps(body))
        return path

    def program(self, account: str, *options: str) -> ControllersProcess:
        """The controllers with this service account, not yet started."""
        made = ControllersProcess(self.kubeconfig(account), *options)
        self.programs.append(made)
        return made

    def account_with(self, role: str) -> str:
        """Create a service account that has only one of the shipped roles."""
        name = f"only-{role}"
        self.kubectl("create", "serviceaccount", name, "--namespace=kube-system")
        account = f"--serviceaccount=kube-system:{name}"
        self.kubectl("create", "clusterrolebinding", name, f"--clusterrole={role}", account)
        return name

    def kill(self) -> None:
        for program in (*self.programs, self.node, self.server):
            if program.is_running:
                program.kill()

    def refused(self) -> list[str]:
        """Metrics of requests that were answered with 401 or 403; the audit log does not have reads."""
        lines = self.kubectl("get", "--raw", "/metrics").splitlines()
        return [line for line in lines if re.search(r'^apiserver_request_total\{.*code="40[13]"', line)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    try:
        made.server.start()
        made.kubectl("apply", "-f", str(MANIFEST), "--namespace=kube-system")
        made.node.start()
        yield made
    finally:
        made.kill()


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """A workload that owns pods."""
    container = {"name": "main", "image": "example/image:1", "ports": [{"containerPort": 80}]}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    wanted = {"selector": {"matchLabels": {"app": name}}, "template": template, "revisionHistoryLimit": 0, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": wanted}


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "work"},
    "spec": {
        "ttlSecondsAfterFinished": 1,
        "template": {
            "metadata": {"annotations": {"sim.pykubelet.dev/main": '{"runs": [{"seconds": 0.1}]}'}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example/image:1"}]},
        },
    },
}
HELD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
CLAIMS = {
    "volumeClaimTemplates": [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    ],
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
}


def live(kubectl: Kubectl) -> None:
    """Exercise every controller once."""
    sets = [workload("Deployment", "web", replicas=2), workload("DaemonSet", "agent")]
    stateful = [workload("StatefulSet", "db", serviceName="db", replicas=2)]
    stateful += [workload("StatefulSet", "store", serviceName="store", **CLAIMS)]
    items = {"apiVersion": "v1", "kind": "List", "items": [*sets, *stateful, JOB]}
    kubectl("create", "-f", "-", text=json.dumps(items))
    kubectl("create", "cronjob", "tick", "--image=example/image:1", "--schedule=* * * * *")
    kubectl("create", "job", "now", "--from=cronjob/tick")
    kubectl("expose", "deploy/web")
    kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=1")
    kubectl("create", "quota", "counts", "--hard=count/pods=99,secrets=1")
    kubectl("create", "secret", "generic", "one")
    kubectl("wait", "quota/counts", "--for=jsonpath={.status.used.secrets}=1", PATIENCE)
    kubectl("delete", "secret", "one")
    kubectl("wait", "quota/counts", "--for=jsonpath={.status.used.secrets}=0", PATIENCE)
    kubectl("patch", "configmap", "kube-root-ca.crt", "-p", '{"data":{"more":"of it"}}')
    kubectl("run", "nowhere", "--image=example/image:1", '--overrides={"spec":{"nodeSelector":{"disk":"none"}}}')
    for what in ("deploy/web", "ds/agent", "sts/db"):
        kubectl("rollout", "status", what, PATIENCE)
        kubectl("rollout", "restart", what)
        assert "roll" in kubectl("rollout", "status", what, PATIENCE)
    kubectl("wait", "endpointslices", "--all", "--for=jsonpath={.endpoints[1].conditions.ready}=true", PATIENCE)
    kubectl("wait", "pdb/web", "--for=jsonpath={.status.disruptionsAllowed}=1", PATIENCE)
    kubectl("wait", "pod/nowhere", "--for=condition=PodScheduled=False", PATIENCE)
    kubectl("wait", "pvc/data-store-0", "--for=jsonpath={.metadata.ownerReferences[0].name}=store", PATIENCE)
    kubectl("wait", "job/work", "--for=delete", PATIENCE)
    assert "more" not in kubectl.json("get", "configmap", "kube-root-ca.crt")["data"]
    kubectl("delete", "deploy/web", "--cascade=foreground", PATIENCE)
    kubectl("delete", "sts,ds,cronjobs,services", "--all", PATIENCE)
    kubectl("wait", "pods", "--selector=app", "--for=delete", PATIENCE)
    kubectl("wait", "job/now", "pvc/data-store-0", "--for=delete", PATIENCE)
    kubectl("wait", "endpointslices", "--all", "--for=delete", PATIENCE)


def test_each_role_is_enough_for_its_controllers(world: World) -> None:
    """Two roles allow everything, so each role runs its controllers in a process of its own."""
    apart = [
        world.program(world.account_with(SHIPPED), "--no-leader-elect", "-v", "--controllers", WORKLOADS),
        world.program(world.account_with(COLLECTOR), "--no-leader-elect", "-v", "--controllers", "garbage"),
        world.program(world.account_with(QUOTAS), "--no-leader-elect", "-v", "--controllers", "resourcequota"),
        world.program(world.account_with(NAMESPACES), "--no-leader-elect", "-v", "--controllers", "namespace"),
    ]
    for program in apart:
        program.start()
    live(world.kubectl)
    assert world.refused() == []
    world.kubectl("create", "namespace", "ends")
    world.kubectl("create", "-f", "-", "--namespace=ends", text=json.dumps(HELD))
    world.kubectl("delete", "namespace", "ends", "--wait=false")
    assert apart[-1].has_said("namespace is not empty yet", within_seconds=40)
    # Our server removes a namespace before the controller can finalize it.
    account = f"--as=system:serviceaccount:kube-system:only-{NAMESPACES}"
    assert world.kubectl("auth", "can-i", "update", "namespaces", "--subresource=finalize", account) == "yes\n"
    for program in apart:
        assert program.stop() == 0
        assert [line for line in program.lines if "forbidden" in line or "Traceback" in line] == []


def test_second_process_takes_over_when_the_leader_stops(world: World) -> None:
    """A leader that stops releases its lease, so that the next one does not wait for it to expire."""
    first = world.program(SHIPPED).start()
    second = world.program(SHIPPED)
    begun = second.launch()
    world.kubectl("create", "deployment", "web", "--image=example/image:1", "--replicas=2")
    world.kubectl("rollout", "status", "deploy/web", PATIENCE)
    assert second.has_said("waiting to become the leader")
    assert not begun.is_set()
    assert first.stop(signal.SIGINT) == 0
    assert second.has_said("ready controllers")
    world.kubectl("scale", "deploy/web", "--replicas=3")
    world.kubectl("wait", "deploy/web", "--for=jsonpath={.status.readyReplicas}=3", PATIENCE)
    assert world.refused() == []
    assert second.stop() == 0
    holder = world.kubectl.json("get", "lease", SHIPPED, "--namespace=kube-system")["spec"]["holderIdentity"]
    assert holder == ""


MISTAKES = {
    "name": ("job,jbo", {"certificate-authority-data": "eA=="}, "unknown controllers jbo; known are replicaset, "),
    "authority": ("root-ca", {}, "root-ca has nothing to publish: the kubeconfig names no certificate authority"),
    "file": ("job", {"certificate-authority": "nowhere.crt"}, "nowhere.crt"),
}


@pytest.mark.parametrize(("names", "trust", "message"), MISTAKES.values(), ids=MISTAKES)
def test_configuration_error_is_one_line(tmp_path: Path, names: str, trust: dict[str, str], message: str) -> None:
    """The exit code is 1, and there is no traceback."""
    cluster = {"server": "https://127.0.0.1:1", **trust}
    body = {"clusters": [{"name": "it", "cluster": cluster}], "current-context": "it"}
    body |= {"contexts": [{"name": "it", "context": {"cluster": "it", "user": ""}}]}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **body}))
    program = ControllersProcess(path, "--controllers", names)
    program.launch().wait(20)
    assert program.stop() == 1
    assert [line for line in program.lines if message in line]
    assert "Traceback" not in "".join(program.lines)
