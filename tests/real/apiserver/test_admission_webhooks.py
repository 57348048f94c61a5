"""Admission webhooks: a real server calls real webhook servers over TLS, for a real kubectl."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from pykubelet.podnetwork.node_address import node_address
from pykubelet_process import ServerProcess, UpProcess
from requirements import missing
from webhook_server import WebhookServer

KINDS = {"Mutating": "mutatingwebhookconfigurations", "Validating": "validatingwebhookconfigurations"}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path_factory.mktemp("webhooks"), "hook.shop.svc")
    yield server
    server.stop()


@pytest.fixture
def cluster(
    server: ServerProcess,
    hooks: WebhookServer,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator["Cluster"]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].rstrip("-")
    kubectl = Kubectl(server.kubeconfig, name, tmp_path_factory.mktemp("kubectl"))
    kubectl("create", "namespace", name)
    hooks.requests()
    yield Cluster(kubectl, hooks, server)
    for plural in KINDS.values():
        kubectl("delete", plural, "--all")
    kubectl("delete", "namespace", name, "--timeout=20s")


class Cluster:
    """kubectl in a namespace, and webhooks that are configured for it."""

    def __init__(self, kubectl: Kubectl, hooks: WebhookServer, server: ServerProcess | UpProcess) -> None:
        self.kubectl, self.hooks, self.server = kubectl, hooks, server

    def configure(self, kind: str, *webhooks: dict[str, Any], name: str = "test") -> None:
        """Configures webhooks; those without rules are for config maps of the namespace."""
        document = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": list(webhooks),
        }
        self.kubectl("apply", "-f", "-", text=json.dumps(document))

    def webhook(self, path: str, resources: str = "configmaps", operations: str = "*", **fields: Any) -> dict[str, Any]:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": [operations], "resources": [resources]}
        return {
            "name": f"{path.strip('/')}.example.com",
            "clientConfig": self.hooks.client(path),
            "rules": [rule],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.kubectl.namespace}},
            **fields,
        }

    def create(self, document: dict[str, Any] | None = None, *options: str) -> dict[str, Any]:
        created: dict[str, Any] = self.kubectl.json(
            "create", "-f", "-", *options, text=json.dumps(document or CONFIG_MAP)
        )
        return created

    def refusal(self, *options: str) -> str:
        """Why a config map cannot be created."""
        return self.kubectl.fails("create", "-f", "-", *options, text=json.dumps(CONFIG_MAP))


def test_a_webhook_denies_with_its_message(cluster: Cluster) -> None:
    """Create, update and delete are denied from the next request on, and no longer once the webhook is gone."""
    cluster.create()
    cluster.configure("Validating", cluster.webhook("/deny"))

    denied = 'admission webhook "deny.example.com" denied the request: not here'
    assert denied in cluster.refusal()
    assert denied in cluster.kubectl.fails("label", "configmap", "one", "a=b")
    assert denied in cluster.kubectl.fails("delete", "configmap", "one")
    asked = {request["operation"]: request for request in cluster.hooks.requests()}
    create, update, delete = asked["CREATE"], asked["UPDATE"], asked["DELETE"]
    assert (create["name"], create["resource"]["resource"], create["kind"]["kind"]) == (
        "one",
        "configmaps",
        "ConfigMap",
    )
    assert create["object"]["metadata"]["uid"]
    assert create["path"] == "/deny?timeout=10s"
    assert (create["oldObject"], delete["object"]) == (None, None)
    assert create["options"]["kind"] == "CreateOptions"
    assert update["object"]["metadata"]["labels"] == {"a": "b"}
    assert "labels" not in update["oldObject"]["metadata"]
    assert (delete["oldObject"]["metadata"]["name"], delete["options"]["kind"]) == ("one", "DeleteOptions")
    cluster.kubectl("delete", "validatingwebhookconfiguration", "test")
    cluster.kubectl("delete", "configmap", "one")


def test_a_denial_without_message_says_so(cluster: Cluster) -> None:
    cluster.configure("Validating", cluster.webhook("/deny-silently"))

    assert 'admission webhook "deny-silently.example.com" denied the request without explanation' in cluster.refusal()


def test_mutations_are_stored_and_webhooks_are_called_once_more_if_they_ask_for_it(cluster: Cluster) -> None:
    again = cluster.webhook("/first", reinvocationPolicy="IfNeeded")
    cluster.configure("Mutating", again, cluster.webhook("/second"))

    assert cluster.create()["data"] == {"first": "again", "second": "yes"}
    assert [request["path"].partition("?")[0] for request in cluster.hooks.requests()] == [
        "/first",
        "/second",
        "/first",
    ]


def test_a_mutated_pod_gets_defaults_and_is_validated(cluster: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    }
    cluster.configure("Mutating", cluster.webhook("/container", "pods", "CREATE"))
    side = cluster.create(pod)["spec"]["containers"][1]
    assert (side["name"], side["terminationMessagePath"]) == ("side", "/dev/termination-log")

    cluster.configure("Mutating", cluster.webhook("/break", "pods", "CREATE"))
    pod["metadata"] = {"name": "other"}
    error = cluster.kubectl.fails("create", "-f", "-", text=json.dumps(pod))
    assert "spec.containers: Required value" in error


def test_warnings_reach_kubectl_and_annotations_the_audit_log(cluster: Cluster) -> None:
    cluster.configure("Validating", cluster.webhook("/warn"))

    done = cluster.kubectl.run("create", "-f", "-", text=json.dumps(CONFIG_MAP))
    assert "Warning: mind the gap" in done.stderr
    lines = (cluster.server.data / "audit.log").read_text().splitlines()
    assert any(json.loads(line).get("annotations") == {"warn.example.com/seen": "yes"} for line in lines)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/fail", 'an error on the server ("oops") has prevented the request from succeeding'),
        ("/garbage", "couldn't get version/kind; json parse error"),
        ("/slow", "context deadline exceeded"),
    ],
)
def test_a_failing_webhook_fails_the_request_unless_ignored(cluster: Cluster, path: str, why: str) -> None:
    name = f"{path.strip('/')}.example.com"
    cluster.configure("Validating", cluster.webhook(path, timeoutSeconds=1))
    error = cluster.refusal()
    assert f'Internal error occurred: failed calling webhook "{name}": failed to call webhook: ' in error
    assert why in error

    cluster.configure("Validating", cluster.webhook(path, timeoutSeconds=1, failurePolicy="Ignore"))
    cluster.create()


def test_an_answer_to_another_request_is_invalid(cluster: Cluster) -> None:
    cluster.configure("Mutating", cluster.webhook("/wrong-uid"))

    assert 'received invalid webhook response: expected response.uid="' in cluster.refusal()


def test_the_certificate_and_the_address_must_be_right(cluster: Cluster) -> None:
    url = cluster.hooks.client("/ok")["url"]
    cluster.configure("Validating", cluster.webhook("/ok", clientConfig={"url": url}))
    assert (
        f'Post "{url}?timeout=10s": tls: failed to verify certificate: x509: certificate signed by' in cluster.refusal()
    )

    no_certificate = {"url": url, "caBundle": "bm90aGluZw=="}
    cluster.configure("Validating", cluster.webhook("/ok", clientConfig=no_certificate))
    assert (
        'failed calling webhook "ok.example.com": could not get REST client: unable to load root' in cluster.refusal()
    )

    cluster.configure("Validating", cluster.webhook("/ok", clientConfig={"url": "https://127.0.0.1:1/ok"}))
    assert (
        'Post "https://127.0.0.1:1/ok?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
        in cluster.refusal()
    )


def test_redirects_are_not_followed(cluster: Cluster) -> None:
    """Else a webhook could have the server ask others for it."""
    cluster.configure("Validating", cluster.webhook("/redirect"))

    assert "the server responded with the status code 307 but did not return more information" in cluster.refusal()
    assert [request["path"] for request in cluster.hooks.requests()] == ["/redirect?timeout=10s"]


def test_a_service_without_endpoints_cannot_be_called(cluster: Cluster) -> None:
    service = {"name": "hook", "namespace": cluster.kubectl.namespace, "path": "/ok"}
    client = {"service": service, "caBundle": cluster.hooks.ca_bundle}
    cluster.configure("Validating", cluster.webhook("/ok", clientConfig=client))

    error = f'Post "https://hook.{cluster.kubectl.namespace}.svc:443/ok?timeout=10s": service "hook" not found'
    assert error in cluster.refusal()


def test_dry_runs_reach_only_webhooks_without_side_effects(cluster: Cluster) -> None:
    cluster.configure("Mutating", cluster.webhook("/second"))
    assert cluster.create(None, "--dry-run=server")["data"] == {"second": "yes"}
    assert [request["dryRun"] for request in cluster.hooks.requests()] == [True]
    assert "not found" in cluster.kubectl.fails("get", "configmap", "one")


def test_no_webhook_can_lock_out_the_change_of_webhooks(cluster: Cluster) -> None:
    cluster.configure("Validating", cluster.webhook("/deny", "*/*", namespaceSelector={}))
    cluster.configure("Mutating", cluster.webhook("/fail", "*", namespaceSelector={}))

    cluster.kubectl("label", "validatingwebhookconfiguration", "test", "a=b")
    cluster.kubectl("delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", "test")
    assert not [request for request in cluster.hooks.requests() if "webhook" in request["resource"]["resource"]]


def test_match_conditions_select_requests_and_must_compile(cluster: Cluster) -> None:
    condition = {"name": "named", "expression": "object.metadata.name != 'one' || request.userInfo.username == 'x'"}
    cluster.configure("Validating", cluster.webhook("/deny", matchConditions=[condition]))
    cluster.create()
    assert "denied" in cluster.kubectl.fails("create", "configmap", "two")

    broken = {"name": "broken", "expression": "... [] bad expression"}
    webhook = cluster.webhook("/deny", matchConditions=[broken])
    with pytest.raises(AssertionError, match=r"matchConditions\[0\].expression: Invalid value.*compilation failed"):
        cluster.configure("Validating", webhook)


def test_other_requests_go_on_while_a_webhook_is_called(cluster: Cluster) -> None:
    cluster.configure("Validating", cluster.webhook("/slow", failurePolicy="Ignore", timeoutSeconds=3))
    waiting = cluster.kubectl.start("create", "configmap", "one")
    while not cluster.hooks.requests():
        assert waiting.poll() is None
    cluster.kubectl("create", "serviceaccount", "quick")
    assert waiting.poll() is None
    assert waiting.communicate(timeout=20)[0] == "configmap/one created\n"


def test_a_restarted_server_needs_no_webhook_to_start(tmp_path: Path, hooks: WebhookServer) -> None:
    server = ServerProcess(tmp_path).start()
    kubectl = Kubectl(server.kubeconfig, "default", tmp_path)
    cluster = Cluster(kubectl, hooks, server)
    cluster.configure("Validating", cluster.webhook("/deny", "*/*", namespaceSelector={}))
    server.stop()
    server.start()

    assert "denied the request" in cluster.refusal()
    assert server.stop() == 0


def test_a_cluster_starts_although_a_webhook_fails_everything(tmp_path: Path, hooks: WebhookServer) -> None:
    """The node and the controllers go on once the webhook is gone; no user is locked out."""
    up = UpProcess(tmp_path, runtime="sim").start()
    cluster = Cluster(Kubectl(up.kubeconfig, "default", tmp_path), hooks, up)
    nowhere = {"url": "https://127.0.0.1:1/"}
    cluster.configure("Validating", cluster.webhook("/ok", "*/*", namespaceSelector={}, clientConfig=nowhere))
    assert up.stop() == 0
    up.start()

    assert "connection refused" in cluster.refusal()
    cluster.kubectl("delete", "validatingwebhookconfiguration", "test")
    cluster.kubectl("wait", "--for=condition=Ready", "node", "node-1", "--timeout=30s")
    cluster.create()
    assert up.stop() == 0


def test_each_webhook_is_called_once_for_a_write(tmp_path: Path, hooks: WebhookServer) -> None:
    """Also where the server itself chooses names, addresses and ports, and adds a volume with a random name.

    The IPAddress of a service is a write of its own.
    """

    def requests() -> list[dict[str, Any]]:
        return [one for one in hooks.requests() if one["kind"]["kind"] != "IPAddress"]

    server = ServerProcess(tmp_path, "--service-account-admission").start()
    cluster = Cluster(Kubectl(server.kubeconfig, "default", tmp_path), hooks, server)
    cluster.kubectl("create", "serviceaccount", "default")
    for kind in KINDS:
        cluster.configure(kind, cluster.webhook("/ok", "*/*"))
    hooks.requests()
    spec = {"containers": [{"name": "c", "image": "web:1"}]}
    service = {"type": "NodePort", "ports": [{"port": 80}]}
    for document in (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service},
    ):
        created = cluster.create(document)
        mutating, validating = requests()
        assert validating["object"]["metadata"]["uid"] == created["metadata"]["uid"]
        assert mutating["object"]["spec"] == validating["object"]["spec"] == created["spec"]
    cluster.kubectl("label", "service", "web", "a=b")
    assert len(requests()) == 2
    assert server.stop() == 0


def test_metrics_count_calls(cluster: Cluster) -> None:
    cluster.configure("Validating", cluster.webhook("/deny"))
    cluster.refusal()

    page = cluster.kubectl("get", "--raw", "/metrics")
    assert 'apiserver_admission_webhook_rejection_count{error_type="no_error",name="deny.example.com"' in page
    assert 'apiserver_admission_webhook_admission_duration_seconds_bucket{le="0.005",name="deny.example.com"' in page


def test_a_webhook_is_called_through_a_service(cluster: Cluster, tmp_path: Path) -> None:
    """The server resolves the service to an endpoint, and expects the service's name in the certificate."""
    address = node_address()
    if not address:
        missing("the machine has no address but loopback")
    namespace = cluster.kubectl.namespace
    hooks = WebhookServer(tmp_path, f"hook.{namespace}.svc", host=address)
    metadata = {"name": "hook", "labels": {"kubernetes.io/service-name": "hook"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 443}]}}
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "", "port": hooks.port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address]}],
    }
    reference = {"name": "hook", "namespace": namespace, "path": "/deny"}
    client = {"service": reference, "caBundle": hooks.ca_bundle}
    cluster.configure("Validating", cluster.webhook("/deny", clientConfig=client))
    try:
        cluster.create(service)
        assert 'no endpoints available for service "hook"' in cluster.refusal()
        cluster.create(endpoints)
        assert "denied the request: not here" in cluster.refusal()
        assert hooks.requests()[-1]["host"] == f"hook.{namespace}.svc:443"
        client["service"] = {**reference, "path": "/ok", "port": 444}
        cluster.configure("Validating", cluster.webhook("/ok", clientConfig=client))
        assert 'no service port 444 found for service "hook"' in cluster.refusal()
    finally:
        hooks.stop()


def test_connections_are_denied_with_their_options(cluster: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    }
    cluster.create(pod)
    cluster.configure("Validating", cluster.webhook("/deny", "pods/*", "CONNECT"))

    assert "denied the request: not here" in cluster.kubectl.fails("exec", "-i", "web", "-c", "c", "--", "ls", "-l")
    asked = cluster.hooks.requests()[-1]
    assert (asked["operation"], asked["subResource"], asked["name"]) == ("CONNECT", "exec", "web")
    assert asked["object"] == {
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        "stdin": True,
        "stdout": True,
        "stderr": True,
        "container": "c",
        "command": ["ls", "-l"],
    }


def test_subresources_are_reviewed_with_their_own_kinds(cluster: Cluster) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "shop"}},
            "template": {
                "metadata": {"labels": {"app": "shop"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    cluster.create(deployment)
    cluster.configure("Validating", cluster.webhook("/ok", "*/scale"))

    cluster.kubectl("scale", "deployment", "shop", "--replicas=3")
    asked = cluster.hooks.requests()[-1]
    assert asked["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (asked["object"]["kind"], asked["object"]["spec"]) == ("Scale", {"replicas": 3})
    assert asked["oldObject"]["spec"] == {"replicas": 1}
    assert cluster.kubectl.json("get", "deployment", "shop")["spec"]["replicas"] == 3


def test_requests_for_tokens_are_reviewed(cluster: Cluster) -> None:
    cluster.kubectl("create", "serviceaccount", "robot")
    cluster.configure("Validating", cluster.webhook("/deny", "serviceaccounts/token"))

    assert "denied the request: not here" in cluster.kubectl.fails("create", "token", "robot")
    assert cluster.hooks.requests()[-1]["kind"]["kind"] == "TokenRequest"


def test_a_deletion_cannot_be_mutated(cluster: Cluster) -> None:
    cluster.create()
    cluster.configure("Mutating", cluster.webhook("/second", operations="DELETE"))

    error = "attempted to modify the object, which is not supported for this operation"
    assert f'admission webhook "second.example.com" {error}' in cluster.kubectl.fails("delete", "configmap", "one")


def test_custom_resources_are_mutated_and_pruned(cluster: Cluster) -> None:
    """Webhooks of any kind apply to custom resources; unknown fields that they add are dropped."""
    data = {"type": "object", "properties": {"first": {"type": "string"}}}
    schema = {"type": "object", "properties": {"data": data}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "hats.webhooks.example.com"},
        "spec": {
            "group": "webhooks.example.com",
            "scope": "Namespaced",
            "names": {"plural": "hats", "kind": "Hat"},
            "versions": [
                {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
                for name in ("v1", "v2")
            ],
        },
    }
    cluster.create(definition)
    try:
        cluster.kubectl("wait", "--for=condition=Established", "crd", "hats.webhooks.example.com", "--timeout=20s")
        first = cluster.webhook("/first", "hats", "CREATE")
        first["rules"][0]["apiVersions"] = ["v1"]
        cluster.configure("Mutating", first, cluster.webhook("/second", "hats", "CREATE"))
        hat = {"apiVersion": "webhooks.example.com/v2", "kind": "Hat", "metadata": {"name": "one"}}
        created = cluster.create(hat)
        assert (created["apiVersion"], created["data"]) == ("webhooks.example.com/v2", {"first": "once"})
        as_v1, as_v2 = cluster.hooks.requests()
        assert (as_v1["object"]["apiVersion"], as_v1["kind"]["version"]) == ("webhooks.example.com/v1", "v1")
        assert as_v1["requestKind"]["version"] == as_v2["kind"]["version"] == "v2"
        assert as_v2["object"]["apiVersion"] == "webhooks.example.com/v2"
    finally:
        cluster.kubectl("delete", "crd", "hats.webhooks.example.com", "--timeout=20s")


def test_an_update_that_meets_another_change_is_reviewed_again(cluster: Cluster) -> None:
    """What is stored was reviewed as it is: a change in between has the webhook called for the new state."""
    cluster.create()
    condition = {"name": "first", "expression": "has(object.metadata.labels) && 'first' in object.metadata.labels"}
    slow = cluster.webhook("/slow", matchConditions=[condition], failurePolicy="Ignore", timeoutSeconds=2)
    cluster.configure("Validating", slow)
    first = cluster.kubectl.start("label", "configmap", "one", "first=yes")
    while not (asked := cluster.hooks.requests()):
        assert first.poll() is None
    cluster.kubectl("label", "configmap", "one", "second=yes")
    assert first.communicate(timeout=20)[0] == "configmap/one labeled\n"
    labels = {"first": "yes", "second": "yes"}
    asked += cluster.hooks.requests()
    assert [request["object"]["metadata"]["labels"] for request in asked] == [{"first": "yes"}, labels]
    assert cluster.kubectl.json("get", "configmap", "one")["metadata"]["labels"] == labels
