"""The controllers of `pykubelet up`, used through kubectl, with containers that are processes."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from process_cluster import shell
from process_lab import end_containers
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
PATIENCE = "--timeout=40s"
FOREVER = "exec sleep 1000"
NUMBERS = itertools.count(1)
GROUPS = {"Job": "batch/v1", "CronJob": "batch/v1"}
# Never ready and crash looping: a version that must not roll out.
BROKEN = shell("exit 3", readinessProbe={"exec": {"command": ["/bin/false"]}, "periodSeconds": 1})


class Place:
    """A namespace of its own, and kubectl for it."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    def create(self, kind: str, name: str, container: dict[str, Any], *, pod: Any = None, **spec: Any) -> None:
        """Create a workload whose pods have one container; `pod` adds fields to the pod spec."""
        template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **(pod or {})}}
        if kind != "Job":
            spec |= {"selector": {"matchLabels": {"app": name}}}
            template |= {"metadata": {"labels": {"app": name}}}
        self.create_object(kind, name, {**spec, "template": template})

    def create_object(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        version = GROUPS.get(kind, "apps/v1")
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.kubectl("create", "-f", "-", text=json.dumps(body))

    def rolled_out(self, what: str) -> str:
        return self.kubectl("rollout", "status", what, PATIENCE)

    def until(self, what: str, wish: str) -> None:
        self.kubectl("wait", what, f"--for={wish}", PATIENCE)

    def update(self, what: str, container: dict[str, Any]) -> None:
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        self.kubectl("patch", what, "-p", json.dumps(patch))

    def names(self, *what: str) -> list[str]:
        return self.kubectl("get", *what, "-o", "name").split()

    def row(self, *what: str) -> list[str]:
        """The row of one object in the output of `kubectl get`, without its age."""
        return self.kubectl("get", *what, "--no-headers").split()[:-1]


class Cluster:
    """`pykubelet up`, and kubectl for any namespace."""

    def __init__(self, folder: Path) -> None:
        self.process, self._cache = UpProcess(folder), folder / "cache"

    def kubectl(self, namespace: str = "default") -> Kubectl:
        return Kubectl(self.process.kubeconfig, namespace, self._cache)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests; its CronJob is created first, so that it is due before its test runs."""
    made = Cluster(tmp_path_factory.mktemp("up"))
    process = made.process
    try:
        process.start()
        made.kubectl()(
            "create", "cronjob", "tick", "--image=example/image:1", "--schedule=* * * * *", "--", "/bin/true"
        )
        yield made
        assert process.stop() == 0
        assert [line for line in process.lines if "Traceback" in line or " E " in line] == []
    finally:
        if process.is_running:
            process.kill()
        end_containers(process.data / "node" / "process")


@pytest.fixture
def place(cluster: Cluster, tmp_path: Path) -> Iterator[Place]:
    """A namespace for one test, deleted afterwards with everything in it."""
    name = f"place-{next(NUMBERS)}"
    kubectl = cluster.kubectl(name)
    kubectl("create", "namespace", name)
    yield Place(kubectl)
    kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


def test_deployment_is_scaled_and_a_bad_version_is_rolled_back(place: Place) -> None:
    """A version that never becomes ready stops at the surge and replaces no ready replica."""
    kubectl = place.kubectl
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    place.create("Deployment", "web", shell(FOREVER), replicas=2, strategy=strategy, progressDeadlineSeconds=2)
    assert 'deployment "web" successfully rolled out' in place.rolled_out("deploy/web")
    kubectl("scale", "deploy/web", "--replicas=3")
    assert "successfully rolled out" in place.rolled_out("deploy/web")
    place.update("deploy/web", BROKEN)
    place.until("deploy/web", "jsonpath={.status.updatedReplicas}=1")
    assert "exceeded its progress deadline" in kubectl.fails("rollout", "status", "deploy/web", PATIENCE)
    assert place.row("deploy/web") == ["web", "3/3", "1", "3"]
    assert kubectl("rollout", "undo", "deploy/web") == "deployment.apps/web rolled back\n"
    place.until("deploy/web", "condition=Progressing=True")
    assert "successfully rolled out" in place.rolled_out("deploy/web")
    assert [line.split()[0] for line in kubectl("rollout", "history", "deploy/web").splitlines()[2:4]] == ["2", "3"]
    described = kubectl("describe", "deploy/web")
    assert "Replicas:               3 desired | 3 updated | 3 total | 3 available | 0 unavailable" in described
    assert "Progressing    True    NewReplicaSetAvailable" in described
    assert "deployment-controller  Scaled up replica set web-" in described
    assert sorted(row.split()[1] for row in kubectl("get", "rs", "--no-headers").splitlines()) == ["0", "3"]


def test_stateful_set_keeps_names_and_order(place: Place) -> None:
    """Pods are created in ascending order, and updated and removed in descending order."""
    kubectl = place.kubectl
    place.create("StatefulSet", "db", shell('echo "I am $(hostname)"; ' + FOREVER), replicas=2, serviceName="db")
    assert "roll out complete: 2 new pods have been updated" in place.rolled_out("sts/db")
    assert place.names("pods") == ["pod/db-0", "pod/db-1"]
    first = kubectl.json("get", "pods")["items"]
    assert first[0]["status"]["startTime"] <= first[1]["status"]["startTime"]
    kubectl("rollout", "restart", "sts/db")
    place.rolled_out("sts/db")
    second = kubectl.json("get", "pods")["items"]
    assert [one["metadata"]["name"] for one in second] == ["db-0", "db-1"]
    assert {one["metadata"]["uid"] for one in first} & {one["metadata"]["uid"] for one in second} == set()
    assert second[1]["metadata"]["creationTimestamp"] <= second[0]["metadata"]["creationTimestamp"]
    assert place.row("sts/db") == ["db", "2/2"]
    assert "create Pod db-1 in StatefulSet db successful" in kubectl("describe", "sts/db")
    kubectl("scale", "sts/db", "--replicas=1")
    kubectl("wait", "pod/db-1", "--for=delete", PATIENCE)
    assert place.names("pods") == ["pod/db-0"]


def test_daemon_set_runs_on_the_node_and_is_updated(place: Place) -> None:
    """A new version replaces the pod of the node, and the history has both revisions."""
    kubectl = place.kubectl
    place.create("DaemonSet", "agent", shell(FOREVER))
    assert 'daemon set "agent" successfully rolled out' in place.rolled_out("ds/agent")
    (before,) = place.names("pods")
    place.update("ds/agent", shell("echo two; " + FOREVER))
    assert "successfully rolled out" in place.rolled_out("ds/agent")
    (after,) = place.names("pods", "--field-selector=spec.nodeName=node-1")
    assert after != before
    assert place.row("ds/agent") == ["agent", "1", "1", "1", "1", "1", "<none>"]
    assert len(place.names("controllerrevisions")) == 2
    assert "Number of Nodes Scheduled with Up-to-date Pods: 1" in kubectl("describe", "ds/agent")
    kubectl("rollout", "undo", "ds/agent")
    place.until("ds/agent", "jsonpath={.metadata.generation}=3")
    assert "successfully rolled out" in place.rolled_out("ds/agent")


def test_jobs_are_retried_until_they_succeed_or_there_were_enough(place: Place, tmp_path: Path) -> None:
    """A retry is a new pod or a restarted container, by restartPolicy; at the backoff limit the Job fails."""
    kubectl = place.kubectl
    second_time = "[ -e /state/tried ] || { touch /state/tried; exit 1; }"
    mounts = [{"name": "state", "mountPath": "/state"}]
    kept = {"volumes": [{"name": "state", "hostPath": {"path": str(tmp_path)}}]}
    own = {"volumes": [{"name": "state", "emptyDir": {}}]}
    never, again = {"restartPolicy": "Never"}, {"restartPolicy": "OnFailure"}
    place.create("Job", "retried", shell(second_time, volumeMounts=mounts), pod={**kept, **never})
    place.create("Job", "restarted", shell(second_time, volumeMounts=mounts), pod={**own, **again})
    place.create("Job", "hopeless", shell("exit 1"), pod=never, backoffLimit=0)
    script = 'echo "number $JOB_COMPLETION_INDEX"'
    place.create("Job", "indexed", shell(script), pod=never, completions=3, parallelism=2, completionMode="Indexed")
    place.until("job/hopeless", "condition=Failed")
    assert "BackoffLimitExceeded" in kubectl("describe", "job/hopeless")
    assert place.row("job/hopeless")[:3] == ["hopeless", "Failed", "0/1"]
    place.until("job/indexed", "condition=Complete")
    assert kubectl.json("get", "job", "indexed")["status"]["completedIndexes"] == "0-2"
    logs = kubectl("logs", "--selector=job-name=indexed")
    assert sorted(logs.splitlines()) == ["number 0", "number 1", "number 2"]
    place.until("job/restarted", "condition=Complete")
    (pod,) = kubectl.json("get", "pods", "--selector=job-name=restarted")["items"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    place.until("job/retried", "condition=Complete")
    assert "1 Succeeded / 1 Failed" in kubectl("describe", "job/retried")
    finalizers = "-o=jsonpath={.items[*].metadata.finalizers}"
    assert kubectl("get", "pods", finalizers) == ""


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_deletion_takes_along_what_is_owned(place: Place, cascade: str) -> None:
    """Background deletion removes them soon after the owner, foreground deletion before it."""
    place.create("Deployment", "web", shell(FOREVER), replicas=2)
    place.rolled_out("deploy/web")
    place.kubectl("delete", "deploy/web", f"--cascade={cascade}", PATIENCE)
    if cascade == "background":
        place.kubectl("wait", "rs,pods", "--all", "--for=delete", PATIENCE)
    assert place.names("deploy,rs,pods") == []


def test_deletion_leaves_orphans_if_asked_to(place: Place) -> None:
    """The orphans have no owner reference until a new Deployment of the same selector adopts them."""
    kubectl = place.kubectl
    place.create("Deployment", "web", shell(FOREVER), replicas=2)
    place.rolled_out("deploy/web")
    pods = place.names("pods")
    kubectl("delete", "deploy/web", "--cascade=orphan", PATIENCE)
    kubectl("delete", "rs", "--all", "--cascade=orphan", PATIENCE)
    owners = "-o=jsonpath={.items[*].metadata.ownerReferences[*].kind}"
    assert kubectl("get", "pods", owners) == ""
    assert place.names("pods") == pods
    place.create("Deployment", "web", shell(FOREVER), replicas=2)
    place.rolled_out("deploy/web")
    assert place.names("pods") == pods
    assert kubectl("get", "pods", owners) == "ReplicaSet ReplicaSet"


def test_namespace_takes_everything_along(place: Place) -> None:
    """Its deletion completes: controllers remove the finalizers that they have set."""
    kubectl = place.kubectl
    place.create("Deployment", "web", shell(FOREVER), replicas=2)
    place.create("StatefulSet", "db", shell(FOREVER), serviceName="db")
    place.create("DaemonSet", "agent", shell(FOREVER))
    place.create("Job", "work", shell(FOREVER), pod={"restartPolicy": "Never"}, parallelism=2)
    place.until("job/work", "jsonpath={.status.ready}=2")
    shown = kubectl("get", "all")
    for word in ("deployment.apps/web", "replicaset.apps/web-", "statefulset.apps/db", "daemonset.apps/agent"):
        assert word in shown
    assert shown.count("pod/") == 6
    kubectl("delete", "namespace", kubectl.namespace, PATIENCE)
    assert "NotFound" in kubectl.fails("get", "namespace", kubectl.namespace)
    assert place.names("all") == []


def test_budget_follows_the_pods(place: Place) -> None:
    """Eviction is refused when the budget's disruptionsAllowed is 0."""
    kubectl = place.kubectl
    place.create("Deployment", "web", shell(FOREVER), replicas=3)
    kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=2")
    place.rolled_out("deploy/web")
    place.until("pdb/web", "jsonpath={.status.disruptionsAllowed}=1")
    assert place.row("pdb/web") == ["web", "2", "N/A", "1"]
    kubectl("scale", "deploy/web", "--replicas=1")
    place.until("pdb/web", "jsonpath={.status.disruptionsAllowed}=0")
    refused = kubectl.fails("drain", "node-1", "--pod-selector=app=web", "--timeout=1s")
    kubectl("uncordon", "node-1")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert len(place.names("pods", "--field-selector=status.phase=Running")) == 1


def test_namespace_has_what_its_pods_need(place: Place) -> None:
    """Each namespace gets a default service account and the config map with the root CA."""
    place.kubectl("wait", "serviceaccount/default", "--for=create", PATIENCE)
    place.kubectl("wait", "configmap/kube-root-ca.crt", "--for=create", PATIENCE)
    authority = place.kubectl.json("get", "configmap", "kube-root-ca.crt")["data"]["ca.crt"]
    assert authority.startswith("-----BEGIN CERTIFICATE-----")


def test_cron_job_starts_its_job_when_it_is_due(cluster: Cluster) -> None:
    """`kubectl create job --from` starts one at any time."""
    kubectl = cluster.kubectl()
    kubectl("create", "job", "now", "--from=cronjob/tick")
    kubectl("wait", "job/now", "--for=condition=Complete", PATIENCE)
    kubectl("wait", "cronjob/tick", "--for=jsonpath={.status.lastScheduleTime}", "--timeout=58s")
    (due, *_) = [name for name in kubectl("get", "jobs", "-o", "name").split() if "/tick-" in name]
    kubectl("wait", due, "--for=condition=Complete", PATIENCE)
    described = kubectl("describe", "cronjob/tick")
    assert f"Created job {due.partition('/')[2]}" in described
    assert "Last Schedule Time:  <unset>" not in described
