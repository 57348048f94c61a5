"""The everyday kubectl commands, run by a real kubectl against a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl import Kubectl
from pykubelet_process import ServerProcess

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: c, image: nginx:1, ports: [{containerPort: 80}]}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: c, image: shop:1}]}
"""
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue, size: small}
"""


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(server: ServerProcess, caches: Path, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl with its own namespace, whose deletion must complete after the test."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].rstrip("-")
    client = Kubectl(server.kubeconfig, name, caches)
    client("create", "namespace", name)
    yield client
    client("delete", "namespace", name, "--timeout=20s")
    assert "not found" in client.fails("get", "namespace", name)


def test_get_prints_tables_and_every_form(kubectl: Kubectl) -> None:
    """`get` prints table, wide, yaml, json, name and jsonpath, with selectors and for all namespaces."""
    kubectl("apply", "-f", "-", text=POD)
    header, row = kubectl("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["web", "0/1", "Pending", "0"]
    assert "NOMINATED NODE" in kubectl("get", "pods", "-o", "wide")
    assert "image: nginx:1" in kubectl("get", "pod", "web", "-o", "yaml")
    assert kubectl.json("get", "pod", "web")["status"]["phase"] == "Pending"
    assert kubectl("get", "pods", "-o", "name") == "pod/web\n"
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].image}") == "nginx:1"
    assert kubectl("get", "pods", "-l", "app=web,tier!=x", "-o", "name") == "pod/web\n"
    assert kubectl("get", "pods", "-l", "app in (shop)", "-o", "name") == ""
    assert kubectl("get", "pods", "--field-selector", "status.phase=Pending", "-o", "name") == "pod/web\n"
    assert kubectl.namespace in kubectl("get", "pods", "-A")
    assert 'pods "nope" not found' in kubectl.fails("get", "pod", "nope")


def test_get_watch_prints_changes_as_they_come(kubectl: Kubectl) -> None:
    """`get -w` prints the existing object, then each change."""
    kubectl("apply", "-f", "-", text=CONFIG)
    watch = kubectl.start("get", "configmaps", "-w", "-o", "jsonpath={.metadata.name}:{.data.colour}{'\\n'}")
    assert watch.stdout is not None
    assert watch.stdout.readline() == "settings:blue\n"
    kubectl("patch", "configmap", "settings", "-p", '{"data":{"colour":"red"}}')
    assert watch.stdout.readline() == "settings:red\n"
    kubectl("delete", "configmap", "settings")
    assert watch.stdout.readline() == "settings:red\n"
    watch.kill()
    watch.communicate()


def test_describe_shows_the_object_and_its_events(kubectl: Kubectl) -> None:
    """`describe`, `events` and `get events` all show the event about the pod."""
    kubectl("apply", "-f", "-", text=POD)
    pod = kubectl.json("get", "pod", "web")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web",
            "namespace": kubectl.namespace,
            "uid": pod["metadata"]["uid"],
        },
        "reason": "Tried",
        "message": "a reason to look",
        "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    kubectl("create", "-f", "-", text=json.dumps(event))
    described = kubectl("describe", "pod", "web")
    assert "Image:" in described
    assert "a reason to look" in described
    assert "a reason to look" in kubectl("events")
    assert "a reason to look" in kubectl("events", "--for", "pod/web")
    assert "a reason to look" in kubectl("get", "events")


def test_apply_changes_prunes_fields_and_says_unchanged(kubectl: Kubectl) -> None:
    """Client-side apply reports created, configured or unchanged, and removes a field that the file no longer has."""
    assert "created" in kubectl("apply", "-f", "-", text=CONFIG)
    assert "unchanged" in kubectl("apply", "-f", "-", text=CONFIG)
    changed = CONFIG.replace(", size: small", "").replace("blue", "green")
    diff = kubectl.run("diff", "-f", "-", text=changed, code=1).stdout
    assert "-  colour: blue" in diff
    assert "+  colour: green" in diff
    assert "configured" in kubectl("apply", "-f", "-", text=changed)
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "green"}
    assert "configured (server dry run)" in kubectl("apply", "--dry-run=server", "-f", "-", text=CONFIG)
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "green"}


def test_server_side_apply_owns_fields_and_conflicts(kubectl: Kubectl) -> None:
    """A second manager of the same field gets a conflict that names the first one, unless it forces the change."""
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in kubectl(*apply, "--field-manager=one", text=CONFIG)
    other = CONFIG.replace("blue", "red")
    assert 'conflict with "one"' in kubectl.fails(*apply, "--field-manager=two", text=other)
    kubectl(*apply, "--field-manager=two", "--force-conflicts", text=other)
    shown = kubectl.json("get", "configmap", "settings", "--show-managed-fields")
    assert shown["data"]["colour"] == "red"
    assert {entry["manager"] for entry in shown["metadata"]["managedFields"]} == {"one", "two"}


def test_client_side_apply_moves_over_to_server_side(kubectl: Kubectl) -> None:
    """Server-side apply takes over the fields of client-side apply, so a field removed from the file is removed."""
    kubectl("apply", "-f", "-", text=CONFIG)
    kubectl("apply", "--server-side", "-f", "-", text=CONFIG.replace(", size: small", ""))
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "blue"}


def test_create_replace_label_annotate_and_patch(kubectl: Kubectl) -> None:
    """The imperative commands work; a `replace` of an outdated object gets a conflict."""
    kubectl("create", "configmap", "c", "--from-literal=a=1")
    kubectl("create", "secret", "generic", "s", "--from-literal=password=hidden")
    assert "already exists" in kubectl.fails("create", "configmap", "c")
    kubectl("label", "configmap", "c", "tier=back")
    kubectl("annotate", "configmap", "c", "note=hello")
    kubectl("patch", "configmap", "c", "--type=json", "-p", '[{"op":"add","path":"/data/b","value":"2"}]')
    kubectl("patch", "configmap", "c", "--type=merge", "-p", '{"data":{"a":null}}')
    found = kubectl.json("get", "configmap", "c")
    assert found["data"] == {"b": "2"}
    assert found["metadata"]["labels"] == {"tier": "back"}
    found["data"] = {"z": "9"}
    kubectl("replace", "-f", "-", text=json.dumps(found))
    assert "the object has been modified" in kubectl.fails("replace", "-f", "-", text=json.dumps(found))
    kubectl("label", "configmap", "c", "tier-")
    assert kubectl.json("get", "configmap", "c")["data"] == {"z": "9"}
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.password}") == "aGlkZGVu"


def test_deployment_scales_and_rollout_reports_its_status(kubectl: Kubectl) -> None:
    """`scale` uses the subresource; `wait` and `rollout status` follow the status that a controller would write."""
    kubectl("apply", "-f", "-", text=DEPLOYMENT)
    assert "scaled" in kubectl("scale", "deployment/shop", "--replicas=3")
    assert kubectl.json("get", "deployment", "shop")["spec"]["replicas"] == 3
    assert "shop" in kubectl("get", "all")
    status = {
        "status": {
            "observedGeneration": kubectl.json("get", "deployment", "shop")["metadata"]["generation"],
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "conditions": [{"type": "Available", "status": "True"}],
        }
    }
    waiting = kubectl.start("wait", "--for=condition=Available", "deployment/shop", "--timeout=20s")
    kubectl("patch", "deployment", "shop", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    assert "condition met" in waiting.communicate(timeout=30)[0]
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/shop", "--timeout=20s")
    kubectl("set", "image", "deployment/shop", "c=shop:2")
    kubectl("rollout", "restart", "deployment/shop")
    assert kubectl.json("get", "deployment", "shop")["metadata"]["generation"] == 4


def test_delete_by_selector_force_and_cascade(kubectl: Kubectl) -> None:
    """`delete` works by selector, by force, and with foreground and orphan cascade."""
    kubectl("apply", "-f", "-", text=POD)
    kubectl("apply", "-f", "-", text=POD.replace("name: web,", "name: other,"))
    kubectl("delete", "pod", "other", "--force", "--grace-period=0")
    assert kubectl("delete", "pods", "-l", "app=web") == 'pod "web" deleted\n'
    kubectl("apply", "-f", "-", text=DEPLOYMENT)
    kubectl("delete", "deployment", "shop", "--cascade=foreground", "--wait=false")
    left = kubectl.json("get", "deployment", "shop")["metadata"]
    assert left["finalizers"] == ["foregroundDeletion"]
    kubectl("patch", "deployment", "shop", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("apply", "-f", "-", text=DEPLOYMENT)
    kubectl("delete", "deployment", "shop", "--cascade=orphan", "--wait=false")
    assert kubectl.json("get", "deployment", "shop")["metadata"]["finalizers"] == ["orphan"]
    kubectl("patch", "deployment", "shop", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert "not found" in kubectl.fails("get", "deployment", "shop")


def test_explain_and_api_resources_read_openapi_and_discovery(kubectl: Kubectl) -> None:
    assert "List of containers belonging to the pod" in kubectl("explain", "pod.spec.containers")
    assert "replicas" in kubectl("explain", "deployment.spec", "--recursive")
    resources = kubectl("api-resources")
    assert "deployments" in resources
    assert "deploy" in resources
    assert "apps/v1" in kubectl("api-versions")


def test_auth_can_i_and_impersonation(kubectl: Kubectl) -> None:
    """A user without rights gets them through a role binding."""
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    stranger = ("--as=jane", "--as-group=system:authenticated")
    assert kubectl.run("auth", "can-i", "list", "pods", *stranger, code=1).stdout == "no\n"
    refused = kubectl.fails("get", "pods", *stranger)
    assert 'User "jane" cannot list resource "pods" in API group ""' in refused
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    kubectl("create", "rolebinding", "jane", "--role=reader", "--user=jane")
    assert kubectl("auth", "can-i", "list", "pods", *stranger) == "yes\n"
    assert "jane" in kubectl("auth", "whoami", *stranger)


def test_broken_manifests_are_explained(kubectl: Kubectl) -> None:
    """Unknown fields, invalid values and unknown kinds give the server's error, and nothing is stored."""
    unknown = kubectl.fails("apply", "-f", "-", text=POD.replace("image:", "imagee:"))
    assert 'unknown field "spec.containers[0].imagee"' in unknown
    invalid = kubectl.fails("create", "-f", "-", text=POD.replace("name: c,", "name: C_,"))
    assert "spec.containers[0].name: Invalid value" in invalid
    assert "no matches for kind" in kubectl.fails("apply", "-f", "-", text=POD.replace("kind: Pod", "kind: Pot"))
    assert kubectl("get", "pods", "-o", "name") == ""


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer, minimum: 1, default: 2, description: How big it is.}}
          status: {type: object, properties: {size: {type: integer}}}
"""
GADGET = """
apiVersion: example.com/v1
kind: Gadget
metadata: {name: g}
spec: {}
"""


def test_custom_resources_are_served_like_any_other(kubectl: Kubectl) -> None:
    """They support explain, defaults, columns, scale, validation and apply, and are deleted with their CRD."""
    kubectl("apply", "-f", "-", text=CRD)
    kubectl("wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=20s")
    kubectl("apply", "-f", "-", text=GADGET)
    header, row = kubectl("get", "gd").splitlines()
    assert header.split() == ["NAME", "SIZE"]
    assert row.split() == ["g", "2"]
    kubectl("scale", "gadget/g", "--replicas=5")
    assert kubectl.json("get", "gadget", "g")["spec"]["size"] == 5
    wrong = kubectl.fails("patch", "gadget", "g", "--type=merge", "-p", '{"spec":{"size":0}}')
    assert "spec.size in body should be greater than or equal to 1" in wrong
    assert "How big it is." in kubectl("explain", "gadget.spec.size")
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=GADGET.replace("{}", "{size: 7}"))
    assert kubectl.json("get", "gadget", "g")["spec"]["size"] == 7
    kubectl("delete", "crd", "gadgets.example.com", "--timeout=20s")
    assert "the server could not find the requested resource" in kubectl.fails("get", "gadgets")
