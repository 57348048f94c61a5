"""Admission of certificate signing requests: the requesting user, rights on signers, times of conditions."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from access_objects import ADMIN, ALICE, SERVED, authorizer, put, rule, thing
from certificates import a_key, request_pem
from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.certificates import CertificateAdmission
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.request import UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.client.certificates.csr import client_template
from pykubelet.testing.virtual_time import VirtualClock

KIND = SERVED["certificatesigningrequests.certificates.k8s.io"]
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
APPROVED = {"type": "Approved", "status": "True"}
NOW = "2026-01-01T00:00:00Z"


def document(signer: str = SIGNER, **status: Any) -> Document:
    pem = base64.b64encode(request_pem(client_template("n1"), a_key())).decode()
    spec = {"request": pem, "signerName": signer, "usages": ["client auth"], "username": "somebody-else"}
    return thing("CertificateSigningRequest", "c", spec=spec, status=status)


def asked(user: UserInfo, subresource: str = "", verb: Any = "update") -> AdmissionAttributes:
    return AdmissionAttributes(user=user, verb=verb, served=KIND, namespace="", name="c", subresource=subresource)


def admission(store: DurableStore) -> CertificateAdmission:
    return CertificateAdmission(authorizer(store).decide, VirtualClock())


async def grant(store: DurableStore, verb: str, signer: str) -> None:
    """Give alice the verb on the signer."""
    rules = [rule(verb, "signers", groups=("certificates.k8s.io",), names=signer)]
    await put(store, "clusterroles.rbac.authorization.k8s.io", thing("ClusterRole", "r", rules=rules))
    subject = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    binding = thing("ClusterRoleBinding", "b", subjects=[subject], roleRef=role)
    await put(store, "clusterrolebindings.rbac.authorization.k8s.io", binding)


async def test_create_records_the_requesting_user(store: DurableStore) -> None:
    """Admission sets the spec's user fields from the authenticated user and leaves out those it has no value for."""
    user = UserInfo("system:bootstrap:abcdef", ("system:bootstrappers",), "u1", {"a": ("b",)})
    made = admission(store).admit(asked(user, verb="create"), document(), None)
    assert made is not None
    shown = {name: made["spec"].get(name) for name in ("username", "uid", "groups", "extra")}
    assert shown == {"username": user.name, "uid": "u1", "groups": ["system:bootstrappers"], "extra": {"a": ["b"]}}
    plain = admission(store).admit(asked(UserInfo("me"), verb="create"), document(), None)
    assert plain is not None
    assert {"uid", "groups", "extra"} & set(plain["spec"]) == set()


@pytest.mark.parametrize(
    ("door", "verb", "word"), [("approval", "approve", "approve"), ("status", "sign", "sign")], ids=["approve", "sign"]
)
@pytest.mark.parametrize("granted", ["", SIGNER, "kubernetes.io/*", "kubernetes.io/kubelet-serving"])
async def test_signer_right_is_required(store: DurableStore, door: str, verb: str, word: str, granted: str) -> None:
    """Approving and signing need the right on the signer by name, or on its whole domain."""
    if granted:
        await grant(store, verb, granted)
    rules, new = admission(store), document(conditions=[APPROVED])
    if granted in (SIGNER, "kubernetes.io/*"):
        assert rules.admit(asked(ALICE, door), new, document()) is not None
        return
    with pytest.raises(ApiError) as refused:
        rules.admit(asked(ALICE, door), new, document())
    why = f'certificatesigningrequests.certificates.k8s.io "c" is forbidden: user not permitted to {word} requests'
    assert str(refused.value) == f'{why} with signerName "{SIGNER}"'


async def test_status_that_does_not_change_needs_no_right(store: DurableStore) -> None:
    """Neither does an update of the main resource or a deletion."""
    rules, same = admission(store), document()
    assert rules.admit(asked(ALICE, "status"), same, document()) == same
    assert rules.admit(asked(ALICE), same, document()) == same
    assert rules.admit(asked(ALICE, verb="delete"), None, document()) is None


async def test_new_condition_needs_the_right_although_the_certificate_is_the_same(store: DurableStore) -> None:
    rules, old = admission(store), document(certificate="QUJD", conditions=[APPROVED])
    new = document(certificate="QUJD", conditions=[APPROVED, {**APPROVED, "type": "Failed"}])
    with pytest.raises(ApiError, match="user not permitted to sign requests"):
        rules.admit(asked(ALICE, "status"), new, old)
    with pytest.raises(ApiError, match="user not permitted to sign requests"):
        rules.admit(asked(ALICE, "status"), document(certificate="REVG", conditions=[APPROVED]), old)
    assert rules.admit(asked(ALICE, "status"), old, old) is not None


async def test_conditions_get_their_times(store: DurableStore) -> None:
    """Both times are set to now; lastTransitionTime stays when the condition was there before."""
    rules, then = admission(store), "2025-01-01T00:00:00Z"
    made = rules.admit(asked(ADMIN, "approval"), document(conditions=[APPROVED]), document())
    assert made is not None
    assert made["status"]["conditions"] == [APPROVED | {"lastUpdateTime": NOW, "lastTransitionTime": NOW}]
    old = document(conditions=[APPROVED | {"lastUpdateTime": then, "lastTransitionTime": then}])
    kept = rules.admit(asked(ADMIN, "approval"), document(conditions=[APPROVED]), old)
    assert kept is not None
    assert kept["status"]["conditions"] == [APPROVED | {"lastUpdateTime": NOW, "lastTransitionTime": then}]


async def test_client_certificate_for_system_masters_is_refused(store: DurableStore) -> None:
    """Admission also refuses a request that cannot be parsed."""
    signer = "kubernetes.io/kube-apiserver-client"
    rules, fine = admission(store), document(signer)
    assert rules.admit(asked(ADMIN, verb="create"), fine, None) is not None
    broken = document(signer) | {"spec": fine["spec"] | {"request": "eA=="}}
    with pytest.raises(ApiError, match="failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"):
        rules.admit(asked(ADMIN, verb="create"), broken, None)
    master = base64.b64encode(masters_request()).decode()
    with pytest.raises(ApiError, match="signer with system:masters group is not allowed"):
        rules.admit(asked(ADMIN, verb="create"), document(signer) | {"spec": fine["spec"] | {"request": master}}, None)
    other = document("example.com/signer")
    for text in (master, "eA=="):
        asking = other | {"spec": other["spec"] | {"request": text}}
        assert rules.admit(asked(ADMIN, verb="create"), asking, None) is not None


def masters_request() -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")])
    return x509.CertificateSigningRequestBuilder().subject_name(name).sign(a_key(), SHA256()).public_bytes(Encoding.PEM)
