"""A node's certificate signing requests: creation, outcome, and time of rotation."""

from datetime import timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from certificates import NOW, a_key, a_request, certificate_pem, request_pem
from pykubelet.api.certificates import kubelet_client_problem, kubelet_serving_problem, signed_request
from pykubelet.client.certificates.csr import (
    CertificateTemplate,
    RequestRefused,
    client_template,
    is_request_for,
    issued_certificate,
    request_object,
    satisfies,
    serving_template,
    stable_request_name,
    usages,
)
from pykubelet.client.certificates.manager import is_valid, lasts_longer, rotation_at, wait_seconds

CLIENT = client_template("n1")
SERVING = serving_template("n1", ["10.0.0.1", "n1", ""])
DENIED = "the certificate signing request csr-1 is denied, reason: Why, message: "
GONE = "the certificate signing request csr-1 was deleted, and another made in its place"


def parsed(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_requests_follow_the_rules_of_the_signers() -> None:
    """The rules are those of our API server's signers."""
    uses = usages(CLIENT, a_key().public_key())
    assert uses == ("digital signature", "client auth")
    assert kubelet_client_problem(signed_request(request_pem(CLIENT, a_key())), uses) == ""
    uses = usages(SERVING, a_key().public_key())
    assert kubelet_serving_problem(signed_request(request_pem(SERVING, a_key())), uses) == ""


def test_rsa_key_adds_the_usage_key_encipherment() -> None:
    """A node may have an RSA key from an older kubelet."""
    key = rsa.generate_private_key(65537, 1024).public_key()
    assert usages(CLIENT, key) == ("digital signature", "key encipherment", "client auth")


def test_name_of_the_first_request_is_stable() -> None:
    """The same node and key give the same name, so that the request is found again; others give another name."""
    names = {
        stable_request_name(wish, a_key(key).public_key()) for wish in (CLIENT, client_template("n2")) for key in (0, 1)
    }
    assert len(names) == 4
    assert stable_request_name(CLIENT, a_key().public_key()) in names
    assert all(name.startswith("node-csr-") and len(name) == 52 for name in names)


@pytest.mark.parametrize(
    ("wish", "key", "days", "is_ours"),
    [(CLIENT, 0, 0, True), (CLIENT, 1, 0, False), (client_template("n2"), 0, 0, False), (CLIENT, 0, 400, False)],
    ids=["ours", "another key", "another node", "what it gave is over"],
)
def test_earlier_request_is_reused_only_if_ours(wish: CertificateTemplate, key: int, days: int, is_ours: bool) -> None:
    found = a_request("Approved", certificate=certificate_pem(CLIENT))
    assert is_request_for(found, wish, a_key(key).public_key(), NOW + timedelta(days=days)) is is_ours


def test_unreadable_request_is_not_ours() -> None:
    """Another client has used the name."""
    found = msgspec.structs.replace(a_request(), spec=msgspec.structs.replace(a_request().spec, request=b"x"))
    assert not is_request_for(found, CLIENT, a_key().public_key(), NOW)


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        (CLIENT, CLIENT, True),
        (CLIENT, client_template("n2"), False),
        (CLIENT, SERVING, False),
        (SERVING, serving_template("n1", ["n1"]), True),
        (SERVING, serving_template("n1", ["n1", "10.0.0.2"]), False),
    ],
    ids=["same", "another node", "names missing", "more names", "new address"],
)
def test_certificate_satisfies_a_template(held: CertificateTemplate, wanted: CertificateTemplate, fits: bool) -> None:
    """It may have more names than wanted, but no fewer."""
    assert satisfies(parsed(certificate_pem(held)), wanted) is fits


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 1, exclude_max=True), st.integers(600, 400 * 86400), st.integers(-(10**6), 10**8))
def test_rotation_comes_between_70_and_90_percent(share: float, seconds: int, later: int) -> None:
    """The wait ends at the rotation time, or is zero once that has passed."""
    certificate, now = parsed(certificate_pem(CLIENT, seconds=seconds)), NOW + timedelta(seconds=later)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    due = rotation_at(certificate, share)
    assert start + (end - start) * 0.7 <= due <= start + (end - start) * 0.9
    wait = wait_seconds(certificate, CLIENT, now, share)
    assert wait == max((due - now).total_seconds(), 0)
    assert is_valid(certificate, now) is (now <= end)


def test_missing_or_outdated_certificate_is_requested_at_once() -> None:
    """A serving certificate is outdated when the addresses of the node change."""
    certificate = parsed(certificate_pem(SERVING))
    assert wait_seconds(None, CLIENT, NOW, 0.5) == 0
    assert wait_seconds(certificate, serving_template("n1", ["10.0.0.9"]), NOW, 0.5) == 0
    assert lasts_longer(certificate, None)
    assert not lasts_longer(certificate, certificate)


@pytest.mark.parametrize(
    ("conditions", "has_certificate", "outcome"),
    [
        ((), True, None),
        (("Approved",), False, None),
        (("Approved",), True, b"pem"),
        (("Other",), True, None),
        (("Denied",), True, DENIED),
        (("Approved", "Failed"), True, DENIED.replace("is denied", "failed")),
    ],
    ids=["pending", "approved", "issued", "neither", "denied", "failed"],
)
def test_outcome_of_a_request(conditions: tuple[str, ...], has_certificate: bool, outcome: bytes | str | None) -> None:
    """The certificate counts only once the request is approved; a denial is final and gives its reason."""
    request = a_request(*conditions, certificate=b"pem" if has_certificate else None)
    if isinstance(outcome, str):
        with pytest.raises(RequestRefused) as refused:
            issued_certificate(request, "")
        assert str(refused.value) == outcome
    else:
        assert issued_certificate(request, "") == outcome


def test_recreated_request_is_rejected() -> None:
    """The request with another UID belongs to another key."""
    with pytest.raises(RequestRefused, match=GONE):
        issued_certificate(a_request("Approved"), "another-uid")


def test_request_without_a_name_gets_one_from_the_server() -> None:
    """Renewals need no stable name."""
    made = request_object(CLIENT, a_key().public_key(), b"pem")
    assert (made.metadata.name, made.metadata.generate_name) == ("", "csr-")
    assert (CLIENT.file_name, SERVING.file_name) == ("kubelet-client", "kubelet-server")
