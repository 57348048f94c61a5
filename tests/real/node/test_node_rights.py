"""A node with only its own certificate works under the Node authorizer and NodeRestriction without a refused request.

A proxy records every request from the registration of the node to the deletion of its last pod. The tests compare them
with what API servers of Kubernetes 1.31 to 1.37 know.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from process_cluster import PATIENCE
from pykubelet.aio.clock import SystemClock
from pykubelet.apiserver.certs.kubeconfig import Endpoint, ensure_kubeconfig, node_identity
from pykubelet.apiserver.certs.pki import open_pki
from pykubelet_process import NodeProcess, ServerProcess
from recording_proxy import RecordingProxy, Seen
from version_schemas import Definitions, validate

pytestmark = pytest.mark.timeout(120)
NODE = "node-1"
VERSIONS = [f"1.{minor}" for minor in range(31, 38)]
PARAMETERS = {"allowWatchBookmarks", "continue", "fieldSelector", "limit", "resourceVersion", "timeoutSeconds", "watch"}
"""Parameters that all of these versions know."""

_NAMED = r"/[a-z0-9.-]+"
_PODS = rf"/api/v1/namespaces{_NAMED}/pods"
ALLOWED: dict[str, tuple[str, ...]] = {
    # Its own node, and its heartbeat.
    "GET": (
        "/api/v1/nodes",
        f"/api/v1/nodes/{NODE}",
        f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}",
        "/api/v1/services",
        "/api/v1/pods",
        rf"{_PODS}{_NAMED}",
        rf"/api/v1/namespaces{_NAMED}/(configmaps|secrets)(/[a-z0-9.-]+)?",
        "/apis/node.k8s.io/v1/runtimeclasses",
    ),
    "POST": (
        "/api/v1/nodes",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        rf"/api/v1/namespaces{_NAMED}/events",
        _PODS,
        rf"/api/v1/namespaces{_NAMED}/serviceaccounts{_NAMED}/token",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    ),
    "PATCH": (
        f"/api/v1/nodes/{NODE}(/status)?",
        f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}",
        rf"{_PODS}{_NAMED}/status",
        rf"/api/v1/namespaces{_NAMED}/events{_NAMED}",
    ),
    "DELETE": (rf"{_PODS}{_NAMED}",),
}
"""What the kubelet asks of an API server, as the role system:node and the rules of its user allow it."""


class Rig:
    """The server, a recording proxy, kubectl, and a node that connects through the proxy."""

    def __init__(self, server: ServerProcess, proxy: RecordingProxy, folder: Path) -> None:
        self.server, self.proxy, self.manifests = server, proxy, folder / "manifests"
        self.manifests.mkdir()
        self._kubectl = Kubectl(server.kubeconfig, "default", folder / "cache")
        kubeconfig = ("--kubeconfig", str(folder / "node.kubeconfig"))
        self.node = NodeProcess(folder, *kubeconfig, "--runtime", "sim", "--manifests", str(self.manifests))

    async def kubectl(self, *arguments: str, text: str = "") -> str:
        return await asyncio.to_thread(self._kubectl, *arguments, text=text)

    async def until_unmounted(self) -> None:
        """Wait until the node has unmounted the memory volumes of its pods."""
        async with asyncio.timeout(30):
            while str(self.node.folder) in await asyncio.to_thread(Path("/proc/mounts").read_text):
                await asyncio.sleep(0.1)

    async def create(self, *documents: dict[str, Any]) -> None:
        await self.kubectl("create", "-f", "-", text="\n".join(map(json.dumps, documents)))


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "example/image:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": NODE, "terminationGracePeriodSeconds": 1, "containers": containers, **spec},
    }


def full_pod(name: str) -> dict[str, Any]:
    """A pod with a config map, a secret and a service account token, mounted and in its environment."""
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in VOLUMES]
    container = {
        "name": "main",
        "image": "example/image:1",
        "volumeMounts": mounts,
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "password"}}],
    }
    wanted = {"serviceAccountName": "worker", "imagePullSecrets": [{"name": "password"}]}
    return pod(name, **wanted, volumes=VOLUMES, containers=[container])


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


OBJECTS: tuple[dict[str, Any], ...] = (
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "data": {"b": encoded("2")}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker"}},
)
VOLUMES: list[dict[str, Any]] = [
    {"name": "settings", "configMap": {"name": "settings"}},
    {"name": "password", "secret": {"secretName": "password"}},
    {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault"}}]}},
]


@dataclass(frozen=True, slots=True)
class Life:
    """The requests that a node has sent, and the server's audit log."""

    seen: list[Seen]
    audit: list[dict[str, Any]]

    def sent(self, method: str) -> list[tuple[str, dict[str, Any]]]:
        """Paths and bodies of the requests with this method."""
        return [(each.path, json.loads(each.body)) for each in self.seen if each.method == method and each.body]


@asynccontextmanager
async def rig(folder: Path) -> AsyncIterator[Rig]:
    server, now = ServerProcess(folder), SystemClock().now()
    await asyncio.to_thread(server.start)
    pki, user = open_pki(server.data / "pki", hosts=(), now=now), node_identity(NODE)
    pair = pki.client(user.user, user.groups, now)
    (folder / "node.pem").write_bytes(pair.certificate_pem + pair.key_pem)
    tls = server.tls()
    tls.load_cert_chain(folder / "node.pem")
    proxy = RecordingProxy(server.url, tls)
    async with proxy.serving(server.data / "pki/apiserver.crt", server.data / "pki/apiserver.key"):
        endpoint = Endpoint(proxy.url, pki.authority.certificate_pem)
        ensure_kubeconfig(folder / "node.kubeconfig", pki, endpoint, user, now=now)
        made = Rig(server, proxy, folder)
        try:
            await asyncio.to_thread(made.node.start)
            yield made
            await made.until_unmounted()
            assert await asyncio.to_thread(made.node.stop) == 0
        finally:
            for process in (made.node, server):
                if process.is_running:
                    process.kill()


async def whole_life(folder: Path) -> Life:
    """Run a node through registration, heartbeats, mirror pods, volumes, tokens, events, a restart and deletions."""
    async with rig(folder) as made:
        (made.manifests / "static.json").write_text(json.dumps(pod("static")))
        await made.create(*OBJECTS, pod("plain"), full_pod("full"), pod("elsewhere", nodeSelector={"disk": "fast"}))
        names = ("pod/plain", "pod/full", f"pod/static-{NODE}", f"node/{NODE}")
        await made.kubectl("wait", "--for=condition=Ready", PATIENCE, *names)
        await made.kubectl("wait", "--for=jsonpath={.status.reason}=NodeAffinity", PATIENCE, "pod/elsewhere")
        assert await made.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/healthz") == "ok"
        await made.kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"data":{"a":"2"}}')
        await asyncio.to_thread(made.node.stop)
        await asyncio.to_thread(made.node.start)
        await made.kubectl("delete", "pod", "plain", "full", "elsewhere", PATIENCE)
        (made.manifests / "static.json").unlink()
        await made.kubectl("wait", "--for=delete", PATIENCE, f"pod/static-{NODE}")
        lines = (made.server.data / "audit.log").read_text().splitlines()
        return Life(list(made.proxy.seen), [json.loads(line) for line in lines])


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    return asyncio.run(whole_life(tmp_path_factory.mktemp("rights")))


def test_nothing_is_refused_to_the_node(life: Life) -> None:
    """Neither authorizers nor admission refuse a request, and each kind of work was done."""
    refused = [f"{each.method} {each.path}: {each.answer}" for each in life.seen if each.code in (401, 403)]
    assert refused == []
    mine = [record for record in life.audit if record["user"] == f"system:node:{NODE}"]
    assert {record["code"] for record in mine} & {401, 403} == set()
    did = {(each.method, each.path) for each in life.seen if each.code < 400}
    namespace = "/api/v1/namespaces/default"
    assert did >= {
        ("POST", "/api/v1/nodes"),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"),
        ("POST", f"{namespace}/pods"),
        ("POST", f"{namespace}/serviceaccounts/worker/token"),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ("PATCH", f"{namespace}/pods/full/status"),
        ("DELETE", f"{namespace}/pods/full"),
        ("DELETE", f"{namespace}/pods/static-{NODE}"),
    }


def test_node_sends_nothing_that_a_kubelet_does_not(life: Life) -> None:
    """No request is sent just in case it might be allowed."""
    unknown = {
        f"{each.method} {each.path}"
        for each in life.seen
        if not any(re.fullmatch(path, each.path) for path in ALLOWED.get(each.method, ()))
    }
    assert unknown == set()


def test_node_reads_no_more_than_its_own(life: Life) -> None:
    """Lists select its own node and pods, and single config maps and secrets; servers from 1.32 on enforce this."""
    collections = {
        "/api/v1/nodes": f"metadata.name={NODE}",
        "/api/v1/pods": f"spec.nodeName={NODE}",
        "/configmaps": "metadata.name=settings",
        "/secrets": "metadata.name=password",
    }
    asked = {
        (end, tuple(each.query.get("fieldSelector", ())))
        for each in life.seen
        for end in collections
        if each.method == "GET" and each.path.endswith(end)
    }
    assert asked == {(end, (selector,)) for end, selector in collections.items()}


def test_parameters_are_known_to_all_versions(life: Life) -> None:
    """It uses neither strict field validation nor streaming lists, which some versions lack."""
    assert {name for each in life.seen for name in each.query} <= PARAMETERS
    assert {each.content_type for each in life.seen if each.method == "PATCH"} == {
        "application/strategic-merge-patch+json"
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_valid_for_the_version(life: Life, version: str) -> None:
    """Created objects have no field that the server's version does not know."""
    bodies = [body for _, body in life.sent("POST")]
    assert {body["kind"] for body in bodies} == {
        "Event",
        "Lease",
        "Node",
        "Pod",
        "SubjectAccessReview",
        "TokenRequest",
    }
    for body in bodies:
        validate(body, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_patches_name_known_fields(life: Life, version: str) -> None:
    """Only `observedGeneration` is newer than 1.32, and servers before 1.33 set no pod generation to observe."""
    tables = Definitions(version)
    unknown = {found for path, body in life.sent("PATCH") for found in tables.unknown_fields(_kind_of(path), body)}
    newer = {"PodCondition.observedGeneration", "PodStatus.observedGeneration"}
    assert unknown == (newer if version in ("1.31", "1.32") else set())


def _kind_of(path: str) -> str:
    plural = path.removesuffix("/status").split("/")[-2]
    return {"pods": "core.v1.Pod", "nodes": "core.v1.Node", "leases": "coordination.v1.Lease"}[plural]
