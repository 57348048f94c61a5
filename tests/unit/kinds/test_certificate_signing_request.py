"""The strategy of CertificateSigningRequests through each of their endpoints."""

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificates import a_key, certificate_pem, request_pem
from pykubelet.client.certificates.csr import client_template
from pykubelet.kinds import certificate_signing_request
from strategy_calls import create, update, update_status

APPROVAL = certificate_signing_request.KIND.subresource_strategies["approval"]
CERTIFICATE_REQUESTS = certificate_signing_request.KIND.strategy

TEMPLATE = client_template("n1")
PEM = request_pem(TEMPLATE, a_key())
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
CERTIFICATE = base64.b64encode(certificate_pem(TEMPLATE)).decode()
_AT = "2026-05-01T12:00:00Z"
APPROVED = {"type": "Approved", "status": "True", "reason": "Why", "lastUpdateTime": _AT, "lastTransitionTime": _AT}
UPDATES = "status.conditions: Forbidden: updates may not"
DIFFERENT = "Approved and Denied conditions are mutually exclusive"


def text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def request(**spec: Any) -> dict[str, Any]:
    wanted = {"request": text(PEM), "signerName": SIGNER, "usages": ["digital signature", "client auth"]}
    return {"spec": wanted | spec}


def stored(*conditions: dict[str, Any], certificate: str = "") -> dict[str, Any]:
    """A stored request with these conditions and this certificate."""
    made, errors = create(CERTIFICATE_REQUESTS, request(), namespace="")
    assert errors == []
    status = ({"conditions": list(conditions)} if conditions else {}) | (
        {"certificate": certificate} if certificate else {}
    )
    return {**made, "status": status}


BAD_SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "no PEM": ({"request": text(b"x")}, 'spec.request: Invalid value: "eA==": PEM block type must be'),
    "broken": ({"request": text(PEM.replace(b"MII", b"NII").replace(b"MIH", b"NIH"))}, "spec.request: Invalid value"),
    "no usages": ({"usages": []}, "spec.usages: Required value"),
    "usage": ({"usages": ["fun"]}, 'spec.usages[0]: Unsupported value: "fun": supported values: "any", "cert sign"'),
    "twice": ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
    "no signer": ({"signerName": ""}, "spec.signerName: Required value"),
    "legacy": ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed via this API"),
    "short": ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds (10 minutes)"),
}


@pytest.mark.parametrize(("spec", "message"), BAD_SPECS.values(), ids=BAD_SPECS)
def test_request_is_rejected_when_invalid(spec: dict[str, Any], message: str) -> None:
    """The message is that of Kubernetes."""
    _, errors = create(CERTIFICATE_REQUESTS, request(**spec), namespace="")
    assert len(errors) == 1
    assert message in errors[0]


def test_new_request_has_no_decision_and_no_certificate() -> None:
    """Creating or updating a request sets neither of them, and an update does not change the spec."""
    made, errors = create(CERTIFICATE_REQUESTS, request() | {"status": {"conditions": [APPROVED]}}, namespace="")
    assert (made["status"], errors) == ({}, [])
    patch = {"spec": {"signerName": "example.com/x"}, "status": {"conditions": [APPROVED], "certificate": CERTIFICATE}}
    changed, errors = update(CERTIFICATE_REQUESTS, stored(), patch)
    assert (changed["spec"], changed["status"], errors) == (stored()["spec"], {}, [])


def test_request_of_the_legacy_signer_can_still_be_changed() -> None:
    """Only a beta version of the API, which is no longer served, accepted it in a new request."""
    old = stored()
    legacy = old | {"spec": old["spec"] | {"signerName": "kubernetes.io/legacy-unknown"}}
    assert update(CERTIFICATE_REQUESTS, legacy, {"metadata": {"labels": {"a": "b"}}})[1] == []


def test_approval_changes_conditions_only() -> None:
    """A certificate in the update is dropped; a decision can be neither removed nor changed."""
    patch = {"status": {"conditions": [APPROVED], "certificate": CERTIFICATE}}
    changed, errors = update(APPROVAL, stored(), patch)
    assert (changed["status"], errors) == ({"conditions": [APPROVED]}, [])
    _, errors = update(APPROVAL, stored(APPROVED), {"status": {"conditions": []}})
    assert errors == [f'{UPDATES} remove a condition of type "Approved"']
    both = [APPROVED, APPROVED | {"type": "Denied"}]
    _, errors = update(APPROVAL, stored(APPROVED), {"status": {"conditions": both}})
    assert errors == [f'status.conditions: Invalid value: "Denied": {DIFFERENT}']


BAD_CONDITIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no type": ({"status": "True"}, "status.conditions[0].type: Required value"),
    "no status": ({"type": "Approved"}, "status.conditions[0].status: Required value"),
    "not true": ({"type": "Failed", "status": "False"}, 'Unsupported value: "False": supported values: "True"'),
}


@pytest.mark.parametrize(("condition", "message"), BAD_CONDITIONS.values(), ids=BAD_CONDITIONS)
def test_condition_is_rejected_when_invalid(condition: dict[str, Any], message: str) -> None:
    """The status of a decision must be True."""
    _, errors = update(APPROVAL, stored(), {"status": {"conditions": [condition]}})
    assert len(errors) == 1
    assert message in errors[0]


def test_signer_adds_a_certificate_and_no_decision() -> None:
    """A certificate can be set once, and decisions stay as they were made."""
    patch = {"status": {"certificate": CERTIFICATE, "conditions": [APPROVED | {"reason": "Other"}]}}
    changed, errors = update_status(CERTIFICATE_REQUESTS, stored(APPROVED), patch)
    assert (changed["status"], errors) == ({"conditions": [APPROVED], "certificate": CERTIFICATE}, [])
    _, errors = update_status(CERTIFICATE_REQUESTS, stored(), patch)
    assert errors == [f'{UPDATES} add a condition of type "Approved"']
    held = stored(APPROVED, certificate=CERTIFICATE)
    _, errors = update_status(CERTIFICATE_REQUESTS, held, {"status": {"certificate": text(certificate_pem(TEMPLATE))}})
    assert errors == ["status.certificate: Forbidden: updates may not modify existing certificate content"]


@pytest.mark.parametrize(
    ("pem", "message"),
    [
        (b"x", "must contain at least one CERTIFICATE PEM block"),
        (b"-----BEGIN KEY-----\n", 'only CERTIFICATE PEM blocks are allowed, found "KEY"'),
        (b"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n", "x509: malformed certificate"),
    ],
    ids=["none", "key", "broken"],
)
def test_certificate_must_be_one(pem: bytes, message: str) -> None:
    """An invalid certificate is never stored."""
    _, errors = update_status(CERTIFICATE_REQUESTS, stored(APPROVED), {"status": {"certificate": text(pem)}})
    assert errors == [f'status.certificate: Invalid value: "<certificate data>": {message}']


def test_requests_are_selected_by_signer() -> None:
    """Fields are the name and the signer, and the row shows the conditions."""
    fields = CERTIFICATE_REQUESTS.fields(stored())
    assert fields == {"metadata.name": "x", "spec.signerName": SIGNER}
    held = stored(APPROVED, certificate=CERTIFICATE)
    held["spec"] |= {"username": "me", "expirationSeconds": 3600}
    cells = certificate_signing_request.request_cells(held, lambda _time: "5s")
    assert cells == ["x", "5s", SIGNER, "me", "60m", "Approved,Issued"]
    denied = stored(APPROVED | {"type": "Denied"}, APPROVED | {"type": "Failed"})
    assert certificate_signing_request.request_cells(denied, lambda _time: "5s")[3:] == ["", "<none>", "Denied,Failed"]


_CONDITION = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["Approved", "Denied", "Failed", "X", ""]),
        "status": st.sampled_from(["True", "False", ""]),
    },
)
_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "conditions": st.lists(_CONDITION, max_size=3),
        "certificate": st.sampled_from([CERTIFICATE, "eA==", ""]),
    },
)


ENDPOINTS = {
    "resource": (CERTIFICATE_REQUESTS.prepare_update, CERTIFICATE_REQUESTS.validate_update),
    "status": (CERTIFICATE_REQUESTS.prepare_status, CERTIFICATE_REQUESTS.validate_status),
    "approval": (APPROVAL.prepare_update, APPROVAL.validate_update),
}


def decisions(status: dict[str, Any]) -> list[Any]:
    found = status.get("conditions") or []
    return [[each for each in found if each.get("type") == type] for type in ("Approved", "Denied")]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@settings(max_examples=50)
@given(before=_STATUS, after=_STATUS)
def test_endpoint_changes_only_its_own_part(endpoint: str, before: Any, after: Any) -> None:
    """Only approval changes decisions, and only the status endpoint changes certificates."""
    prepare, validate = ENDPOINTS[endpoint]
    old, sent = {**stored(), "status": before}, {**stored(), "status": after}
    new = prepare(sent, old)
    assert new["spec"] == old["spec"]
    if not validate(new, old):
        assert endpoint == "approval" or decisions(new["status"]) == decisions(before)
        assert endpoint == "status" or (new["status"].get("certificate") or "") == (before.get("certificate") or "")
