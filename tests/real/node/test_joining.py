"""A machine joins the cluster: client certificate by bootstrap token, renewal, and serving certificate.

The server is real; our controllers, or a person with kubectl, approve and sign.
"""

import asyncio
import base64
import json
import ssl
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from kubectl import Kubectl
from pykubelet.aio.clock import SystemClock
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.errors import Forbidden
from pykubelet.api.scheme import NODES, SECRETS
from pykubelet.apiserver.certs.pki import open_pki
from pykubelet.app.controllers import controllers
from pykubelet.app.node_program import NodeConnection, connected, join_cluster
from pykubelet.app.node_server import KnownApiServer, open_listener, serving_certificate
from pykubelet.app.program import read_rest_config
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.certificates.csr import client_template, key_pem, new_key, unsigned_request, usages
from pykubelet.client.certificates.store import CertificateStore
from pykubelet.client.interface import Client, Selection
from pykubelet.client.rest import RestClient
from pykubelet.client.transport import PemSource
from pykubelet.controllers.certificates.signer import CertificateAuthority, sign_certificate
from pykubelet_process import ServerProcess

CLOCK = SystemClock()
TOKEN = "abcdef.0123456789abcdef"
GROUP = "system:bootstrappers"
RIGHTS = {
    "join": ("system:node-bootstrapper", GROUP),
    "first": ("system:certificates.k8s.io:certificatesigningrequests:nodeclient", GROUP),
    "renew": ("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"),
}


class Cluster:
    """A server with a bootstrap token, and kubectl."""

    def __init__(self, folder: Path) -> None:
        self.server = ServerProcess(folder).start()
        self._kubectl = Kubectl(self.server.kubeconfig, "kube-system", folder / "cache")
        self._kubectl("create", "-f", "-", text=json.dumps(token_secret()))
        for name, (role, group) in RIGHTS.items():
            self._kubectl("create", "clusterrolebinding", name, f"--clusterrole={role}", f"--group={group}")
        pki = open_pki(self.server.data / "pki", hosts=(), now=CLOCK.now())
        self.authority = CertificateAuthority(pki.authority.certificate, pki.authority.key)

    async def kubectl(self, *arguments: str) -> str:
        return await asyncio.to_thread(self._kubectl, *arguments)

    async def requests(self, node: str) -> list[dict[str, Any]]:
        """The certificate signing requests of a node."""
        listed = json.loads(await self.kubectl("get", "csr", "-o", "json"))["items"]
        return [each for each in listed if user_of(each) == f"system:node:{node}"]

    async def pending_request(self, node: str) -> str:
        """The name of a node's only certificate signing request, once it exists."""
        async with asyncio.timeout(10):
            while not (found := await self.requests(node)):
                await asyncio.sleep(0.05)
        return str(found[0]["metadata"]["name"])

    @asynccontextmanager
    async def signing(self) -> AsyncIterator[None]:
        """Our controllers approve and sign while the context lasts."""
        names = ("csrapproving", "csrsigning", "csrcleaner")
        access = read_rest_config(self.server.kubeconfig, CLOCK)
        async with (
            RestClient(access, clock=CLOCK) as client,
            controllers(client=client, clock=CLOCK, root_ca="", authority=self.authority, names=names),
        ):
            yield


def user_of(request: dict[str, Any]) -> str:
    parsed = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
    return str(parsed.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


def token_secret() -> dict[str, Any]:
    identity, _, secret = TOKEN.partition(".")
    data = {"token-id": identity, "token-secret": secret, "usage-bootstrap-authentication": "true"}
    metadata = {"name": f"bootstrap-token-{identity}", "namespace": "kube-system"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": metadata,
        "stringData": data,
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("joining"))
    yield made
    assert made.server.stop() == 0


def machine(cluster: Cluster, folder: Path, name: str, *, token: str = TOKEN) -> NodeSettings:
    """The settings of a machine with a bootstrap kubeconfig."""
    authority = str(cluster.server.data / "pki/ca.crt")
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": cluster.server.url, "certificate-authority": authority}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (folder / "bootstrap").write_text(json.dumps(config))
    return NodeSettings(
        node_name=name,
        root_dir=folder / "node",
        kubeconfig=folder / "kubeconfig",
        bootstrap_kubeconfig=folder / "bootstrap",
        port=0,
    )


async def join(settings: NodeSettings, stop: asyncio.Event | None = None) -> bool:
    assert settings.kubeconfig is not None
    return await join_cluster(settings, settings.kubeconfig, clock=CLOCK, stop=stop or asyncio.Event())


@asynccontextmanager
async def node_client(settings: NodeSettings) -> AsyncIterator[NodeConnection]:
    assert settings.kubeconfig is not None
    async with connected(settings, settings.kubeconfig, clock=CLOCK) as joined:
        yield joined


async def test_machine_with_a_token_becomes_a_node(cluster: Cluster, tmp_path: Path) -> None:
    """Certificate and kubeconfig have mode 0600, and the server authenticates the machine as the node."""
    settings = machine(cluster, tmp_path, "fresh")
    async with cluster.signing():
        assert await join(settings)
    current = tmp_path / "node/pki/kubelet-client-current.pem"
    assert current.is_symlink()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (current, tmp_path / "kubeconfig")] == [0o600, 0o600]
    assert not (tmp_path / "node/pki/kubelet-client.key.tmp").exists()
    async with node_client(settings) as joined:
        assert joined.is_node
        itself = Selection(fields="metadata.name=fresh")
        assert (await joined.client.list(NODES, selection=itself)).items == ()
        with pytest.raises(Forbidden):
            await joined.client.list(SECRETS, namespace="kube-system")
    # With a valid certificate, it makes no new request.
    assert await join(settings)
    assert len(await cluster.requests("fresh")) == 1


async def test_stopped_machine_reuses_its_request_after_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    """The key is kept, so that the pending request stays usable."""
    settings, stop = machine(cluster, tmp_path, "patient"), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        joining = group.create_task(join(settings, stop))
        name = await cluster.pending_request("patient")
        stop.set()
        assert await joining is False
    assert not (tmp_path / "kubeconfig").exists()
    async with cluster.signing():
        assert await join(settings)
    assert [each["metadata"]["name"] for each in await cluster.requests("patient")] == [name]


async def test_denied_request_ends_the_program_with_the_reason(cluster: Cluster, tmp_path: Path) -> None:
    settings = machine(cluster, tmp_path, "unwanted")
    async with asyncio.TaskGroup() as group:
        joining = group.create_task(_why(settings))
        await cluster.kubectl("certificate", "deny", await cluster.pending_request("unwanted"))
        assert "is denied, reason: KubectlDeny" in await joining


async def _why(settings: NodeSettings) -> str:
    with pytest.raises(CannotStart) as caught:
        await join(settings)
    return str(caught.value)


async def test_unknown_token_is_reported_without_showing_it(cluster: Cluster, tmp_path: Path) -> None:
    why = await _why(machine(cluster, tmp_path, "stranger", token="abcdef.fedcba9876543210"))
    assert "Unauthorized" in why
    assert "fedcba" not in why


async def test_certificate_that_is_nearly_over_is_renewed(cluster: Cluster, tmp_path: Path) -> None:
    """The running node requests the new certificate and then uses it."""
    settings = machine(cluster, tmp_path, "old")
    async with cluster.signing():
        assert await join(settings)
        files = CertificateStore(tmp_path / "node/pki", "kubelet-client")
        wish, key = client_template("old"), new_key()
        request, started = unsigned_request(wish).sign(key, SHA256()), CLOCK.now() - timedelta(minutes=9)
        uses = usages(wish, key.public_key())
        pem = sign_certificate(request, uses, authority=cluster.authority, now=started, seconds=600)
        before = files.replace(pem, key_pem(key), now=CLOCK.now() + timedelta(seconds=1))
        async with node_client(settings) as joined, asyncio.timeout(10):
            while (after := files.current()) is None or after.certificate == before.certificate:
                await asyncio.sleep(0.05)
            await joined.client.list(NODES, selection=Selection(fields="metadata.name=old"))
    assert after.certificate.not_valid_after_utc > CLOCK.now() + timedelta(days=300)
    renewals = [each for each in await cluster.requests("old") if each["spec"]["username"] == "system:node:old"]
    assert [each["status"]["conditions"][0]["reason"] for each in renewals] == ["AutoApproved"]


async def test_node_api_serves_with_the_certificate_it_was_given(cluster: Cluster, tmp_path: Path) -> None:
    """New connections get the certificate as soon as a person has approved the request."""
    settings = machine(cluster, tmp_path, "server")
    trust = cluster.server.tls()
    async with cluster.signing():
        assert await join(settings)
        seen = KnownApiServer(cluster.server.url, PemSource("ca", path=str(cluster.server.data / "pki/ca.crt")))
        async with node_client(settings) as joined, open_listener(settings, server=seen, clock=CLOCK) as door:
            client: Client = joined.client
            keeper, is_kept = serving_certificate(door, settings, client=client, clock=CLOCK), asyncio.Event()
            async with running({"serving": with_ready_event(keeper.run, is_kept)}), asyncio.timeout(15):
                assert "self-signed" in await _shown(door, trust)
                await _approve_serving(cluster)
                await is_kept.wait()
                assert await _shown(door, trust) == "system:node:server"


async def _approve_serving(cluster: Cluster) -> None:
    while True:
        for each in await cluster.requests("server"):
            if each["spec"]["signerName"] == "kubernetes.io/kubelet-serving":
                await cluster.kubectl("certificate", "approve", each["metadata"]["name"])
                return
        await asyncio.sleep(0.05)


async def _shown(door: Any, trust: ssl.SSLContext) -> str:
    """The subject of the certificate that a client sees, or the reason why it is not trusted."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), sock=door.listener.dup(), ssl=door.tls)
    try:
        _, writer = await asyncio.open_connection(door.address, door.port, ssl=trust, server_hostname=door.address)
        found = writer.get_extra_info("peercert")
        writer.close()
        return str(dict(pair[0] for pair in found["subject"])["commonName"])
    except ssl.SSLCertVerificationError as error:
        return str(error)
    finally:
        server.close()
