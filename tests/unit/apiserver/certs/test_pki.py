"""Keys and certificates on disk: created once, reused, renewed in time, never replaced by mistake."""

import asyncio
import ssl
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from pykubelet.apiserver.certs.certificates import belongs, read_key, server_names, write_private
from pykubelet.apiserver.certs.kubeconfig import (
    ADMIN,
    ClientIdentity,
    Endpoint,
    controller_identity,
    ensure_kubeconfig,
    node_identity,
)
from pykubelet.apiserver.certs.pki import Pki, PkiError, Renewal, TlsFiles, open_pki, server_context, serving_authority
from pykubelet.testing.virtual_time import EPOCH, VirtualClock

NOW = EPOCH
HOSTS = ("machine.example", "192.0.2.7", "0.0.0.0")


def opened(folder: Path, *, now: datetime = NOW, hosts: tuple[str, ...] = HOSTS) -> Pki:
    return open_pki(folder / "pki", hosts=hosts, now=now)


def days(count: float) -> timedelta:
    return timedelta(days=count)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_first_start_makes_everything_and_keeps_keys_to_itself(tmp_path: Path) -> None:
    """Only the owner can read the keys and the folder; the certificate is for all names of the server."""
    pki = opened(tmp_path)
    assert mode(tmp_path / "pki") == 0o700
    assert {path.name: mode(path) for path in (tmp_path / "pki").iterdir()} == {
        "ca.crt": 0o644,
        "ca.key": 0o600,
        "apiserver.crt": 0o644,
        "apiserver.key": 0o600,
        "sa.key": 0o600,
    }
    names = server_names(pki.serving.certificate)
    assert names >= {"localhost", "127.0.0.1", "::1", "kubernetes.default.svc", "machine.example", "192.0.2.7"}
    assert "0.0.0.0" not in names
    assert "PRIVATE" not in repr(pki)


def test_second_start_reuses_keys_and_certificates(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    assert first.authority.certificate == second.authority.certificate
    assert first.serving.certificate == second.serving.certificate
    assert first.signing_key.private_numbers() == second.signing_key.private_numbers()


@pytest.mark.parametrize(
    ("now", "hosts"),
    [(NOW + days(300), HOSTS), (NOW, ("new.example",)), (NOW + days(500), HOSTS)],
    ids=["near its end", "another name", "expired"],
)
def test_serving_certificate_is_renewed(tmp_path: Path, now: datetime, hosts: tuple[str, ...]) -> None:
    """The authority stays, so clients need no change."""
    first, second = opened(tmp_path), opened(tmp_path, now=now, hosts=hosts)
    assert first.serving.certificate != second.serving.certificate
    assert first.authority.certificate == second.authority.certificate
    assert belongs(second.serving, first.authority)


def test_authority_is_renewed_with_its_key(tmp_path: Path) -> None:
    """Certificates that the old authority issued are valid under the new one."""
    first = opened(tmp_path)
    client = first.client("alice", (), NOW + days(3000))
    second = opened(tmp_path, now=NOW + days(3000))
    assert first.authority.certificate != second.authority.certificate
    assert belongs(client, second.authority)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ca.key", b"nonsense", "ca.key holds no private key"),
        ("sa.key", b"", "sa.key holds no private key"),
        ("ca.crt", b"nonsense", "ca.crt holds no certificate"),
        ("ca.key", None, "ca.key is not"),
    ],
)
def test_broken_authority_is_an_error_and_stays(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    """The server never silently replaces the keys that all others depend on."""
    opened(tmp_path)
    path = tmp_path / "pki" / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(PkiError, match=message):
        opened(tmp_path)
    assert path.exists() is (content is not None)
    assert content is None or path.read_bytes() == content


def test_authority_with_another_key_is_an_error(tmp_path: Path) -> None:
    """A partly restored backup can cause this."""
    opened(tmp_path)
    opened(tmp_path / "other")
    (tmp_path / "pki/ca.key").write_bytes((tmp_path / "other/pki/ca.key").read_bytes())
    with pytest.raises(PkiError, match="does not belong to"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["apiserver.key", "apiserver.crt"])
def test_mismatched_serving_pair_is_replaced(tmp_path: Path, name: str) -> None:
    """A crash between two writes can cause this."""
    first = opened(tmp_path)
    opened(tmp_path / "other")
    (tmp_path / "pki" / name).write_bytes((tmp_path / "other/pki" / name).read_bytes())
    second = opened(tmp_path)
    assert second.serving.certificate != first.serving.certificate
    assert belongs(second.serving, second.authority)


async def test_running_server_renews_its_certificate(tmp_path: Path) -> None:
    """New connections get a new certificate after two thirds of its lifetime."""
    clock = VirtualClock()
    pki = opened(tmp_path, now=clock.now() - days(240))
    context = server_context(pki)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(Renewal(pki, context, clock=clock).run(ready))
        await ready.wait()
        await asyncio.sleep(days(2).total_seconds())
        before = (tmp_path / "pki/apiserver.crt").read_bytes()
        await asyncio.sleep(days(4).total_seconds())
        task.cancel()
    assert before == pki.serving.certificate_pem
    assert (tmp_path / "pki/apiserver.crt").read_bytes() != before
    assert context.cert_store_stats()["x509_ca"] == 1


async def test_running_server_gets_a_certificate_with_a_new_address(tmp_path: Path) -> None:
    """The authority stays, and a name that is there already changes nothing."""
    clock = VirtualClock()
    pki = opened(tmp_path, now=clock.now())
    path = tmp_path / "pki/apiserver.crt"
    renewal, ready = Renewal(pki, server_context(pki), clock=clock), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(renewal.run(ready))
        renewal.add_name(HOSTS[0])
        await asyncio.sleep(60)
        assert path.read_bytes() == pki.serving.certificate_pem
        renewal.add_name("10.1.2.4")
        await asyncio.sleep(60)
        task.cancel()
    again = opened(tmp_path, now=clock.now())
    assert server_names(again.serving.certificate) == {*pki.names, "10.1.2.4"}
    assert again.authority.certificate == pki.authority.certificate
    assert belongs(again.serving, pki.authority)


def test_users_own_files_are_served_and_trusted(tmp_path: Path) -> None:
    """They are a serving certificate and a client authority; an error names a file that is invalid."""
    pki, other = opened(tmp_path), opened(tmp_path / "other")
    folder = tmp_path / "other/pki"
    files = TlsFiles(
        certificate=folder / "apiserver.crt", key=folder / "apiserver.key", client_authority=folder / "ca.crt"
    )
    assert server_context(pki, files).cert_store_stats()["x509_ca"] == 2
    assert serving_authority(pki, files) == other.serving.certificate_pem
    assert serving_authority(pki) == pki.authority.certificate_pem
    bad = tmp_path / "bad.pem"
    bad.write_text("nonsense")
    for wrong in (TlsFiles(certificate=bad, key=bad), TlsFiles(client_authority=bad)):
        with pytest.raises(PkiError, match=r"bad\.pem cannot be used for TLS"):
            server_context(pki, wrong)
    assert server_context(pki).minimum_version == ssl.TLSVersion.TLSv1_2


ENDPOINT = Endpoint("https://127.0.0.1:6443", b"CA")


def test_kubeconfig_is_whole_and_private(tmp_path: Path) -> None:
    """The file holds everything, and its mode is 0600 even if an old file had another one."""
    path = tmp_path / "admin.kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    assert ensure_kubeconfig(path, opened(tmp_path), ENDPOINT, ADMIN, now=NOW)
    assert mode(path) == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["current-context"] == config["contexts"][0]["name"]
    assert config["clusters"][0]["cluster"] == {"server": ENDPOINT.server, "certificate-authority-data": "Q0E="}
    assert config["users"][0]["user"].keys() == {"client-certificate-data", "client-key-data"}


@pytest.mark.parametrize(
    ("endpoint", "identity", "now", "written"),
    [
        (ENDPOINT, ADMIN, NOW + days(30), False),
        (ENDPOINT, ADMIN, NOW + days(300), True),
        (Endpoint("https://other:1", b"CA"), ADMIN, NOW, True),
        (Endpoint(ENDPOINT.server, b"new"), ADMIN, NOW, True),
        (ENDPOINT, ClientIdentity(ADMIN.user, ("other",)), NOW, True),
    ],
    ids=["same", "certificate near its end", "another address", "another authority", "another group"],
)
def test_kubeconfig_is_written_again_only_when_it_must_be(
    tmp_path: Path, endpoint: Endpoint, identity: ClientIdentity, now: datetime, *, written: bool
) -> None:
    """A kubeconfig that is still valid is left alone."""
    path, pki = tmp_path / "admin.kubeconfig", opened(tmp_path)
    ensure_kubeconfig(path, pki, ENDPOINT, ADMIN, now=NOW)
    before = path.read_bytes()
    assert ensure_kubeconfig(path, pki, endpoint, identity, now=now) is written
    assert (path.read_bytes() != before) is written


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """No temporary file stays; the write fails here because the target is a folder."""
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(tmp_path / "file", b"secret")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_keys_that_cannot_be_used_are_refused() -> None:
    """Encrypted keys and keys of other types give an error about the key, not a crash."""
    other = ed25519.Ed25519PrivateKey.generate()
    plain, secret = serialization.NoEncryption(), serialization.BestAvailableEncryption(b"pw")
    for protection, message in ((plain, "neither an RSA nor an elliptic curve key"), (secret, "is encrypted")):
        pem = other.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        with pytest.raises(ValueError, match=message):
            read_key(pem)


def test_identities_are_those_the_default_roles_know() -> None:
    assert node_identity("n1") == ClientIdentity("system:node:n1", ("system:nodes",))
    assert controller_identity("job-controller").user == "system:serviceaccount:kube-system:job-controller"
