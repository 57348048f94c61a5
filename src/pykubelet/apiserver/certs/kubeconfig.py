"""Writes kubeconfigs for the administrator, nodes and controllers, readable by their owner only.

A file that is still valid is left alone, so that a restart changes nothing.

Upstream: cmd/kubeadm/app/phases/kubeconfig/kubeconfig.go
"""

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml
from cryptography import x509

from pykubelet.api.serializer import Document
from pykubelet.api.yaml.write import to_yaml
from pykubelet.apiserver.certs.certificates import CertificateKeyPair, belongs, is_fresh, read_key, write_private
from pykubelet.apiserver.certs.pki import Pki
from pykubelet.apiserver.request import (
    CONTROLLER_MANAGER,
    MASTERS,
    NODE_PREFIX,
    NODES_GROUP,
    account_groups,
    account_name,
)

_CLUSTER = "pykubelet"


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The user and groups that a kubeconfig authenticates."""

    user: str
    groups: tuple[str, ...] = ()


ADMIN = ClientIdentity("kubernetes-admin", (MASTERS,))
CONTROLLERS = ClientIdentity(CONTROLLER_MANAGER)


def node_identity(name: str) -> ClientIdentity:
    return ClientIdentity(f"{NODE_PREFIX}{name}", (NODES_GROUP,))


def controller_identity(name: str) -> ClientIdentity:
    """The service account with the default roles of a controller, such as `replicaset-controller`."""
    return ClientIdentity(account_name("kube-system", name), account_groups("kube-system"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The server's URL and the CA certificates (PEM) that clients must trust."""

    server: str
    authority: bytes


def kubeconfig(endpoint: Endpoint, identity: ClientIdentity, pair: CertificateKeyPair) -> Document:
    context = f"{identity.user}@{_CLUSTER}"
    cluster = {"server": endpoint.server, "certificate-authority-data": _base64(endpoint.authority)}
    user = {"client-certificate-data": _base64(pair.certificate_pem), "client-key-data": _base64(pair.key_pem)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _CLUSTER, "cluster": cluster}],
        "users": [{"name": identity.user, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": _CLUSTER, "user": identity.user}}],
        "current-context": context,
    }


def ensure_kubeconfig(path: Path, pki: Pki, endpoint: Endpoint, identity: ClientIdentity, *, now: datetime) -> bool:
    """Writes the kubeconfig unless the existing file is equal and its certificate fresh; returns whether it was written."""
    pair = _pair_in(path)
    if pair is not None and belongs(pair, pki.authority) and is_fresh(pair.certificate, now):
        text = to_yaml(kubeconfig(endpoint, identity, pair))
        if path.read_text(encoding="utf-8") == text and _is_certificate_of(pair, identity):
            path.chmod(0o600)
            return False
    pair = pki.client(identity.user, identity.groups, now)
    write_private(path, to_yaml(kubeconfig(endpoint, identity, pair)).encode())
    return True


def _pair_in(path: Path) -> CertificateKeyPair | None:
    """The key pair in a kubeconfig written by `ensure_kubeconfig`; None if it is not one."""
    try:
        user = yaml.safe_load(path.read_text(encoding="utf-8"))["users"][0]["user"]
        certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"], validate=True))
        return CertificateKeyPair(certificate, read_key(base64.b64decode(user["client-key-data"], validate=True)))
    except (OSError, ValueError, TypeError, LookupError, binascii.Error, yaml.YAMLError):
        return None


def _is_certificate_of(pair: CertificateKeyPair, identity: ClientIdentity) -> bool:
    subject = pair.certificate.subject
    names = [str(name.value) for name in subject.get_attributes_for_oid(x509.oid.NameOID.COMMON_NAME)]
    groups = [str(name.value) for name in subject.get_attributes_for_oid(x509.oid.NameOID.ORGANIZATION_NAME)]
    return names == [identity.user] and sorted(groups) == sorted(identity.groups)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
