"""What a node asks to be certified, what became of it, and when it is due again."""

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


def test_wishes_are_requests_that_signers_know() -> None:
    """By the same rules that an API server's signers have."""
    uses = usages(CLIENT, a_key().public_key())
    assert uses == ("digital signature", "client auth")
    assert kubelet_client_problem(signed_request(request_pem(CLIENT, a_key())), uses) == ""
    uses = usages(SERVING, a_key().public_key())
    assert kubelet_serving_problem(signed_request(request_pem(SERVING, a_key())), uses) == ""


def test_rsa_key_enciphers_too() -> None:
    """A key from an older node may be one."""
    key = rsa.generate_private_key(65537, 1024).public_key()
    assert usages(CLIENT, key) == ("digital signature", "key encipherment", "client auth")


def test_name_of_a_first_request_lasts() -> None:
    """The same for the same node and key, so that it is found again; else another."""
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
def test_earlier_request_is_ours(wish: CertificateTemplate, key: int, days: int, is_ours: bool) -> None:
    """Only then is it used again."""
    found = a_request("Approved", certificate=certificate_pem(CLIENT))
    assert is_request_for(found, wish, a_key(key).public_key(), NOW + timedelta(days=days)) is is_ours


def test_unreadable_request_is_not_ours() -> None:
    """Somebody else has taken the name."""
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
def test_certificate_satisfies_a_wish(held: CertificateTemplate, wanted: CertificateTemplate, fits: bool) -> None:
    """It may have more than is wanted, and nothing less."""
    assert satisfies(parsed(certificate_pem(held)), wanted) is fits


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 1, exclude_max=True), st.integers(600, 400 * 86400), st.integers(-(10**6), 10**8))
def test_rotation_comes_between_70_and_90_percent(share: float, seconds: int, later: int) -> None:
    """At one time for one share, which the wait leads to, and never after the end."""
    certificate, now = parsed(certificate_pem(CLIENT, seconds=seconds)), NOW + timedelta(seconds=later)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    due = rotation_at(certificate, share)
    assert start + (end - start) * 0.7 <= due <= start + (end - start) * 0.9
    wait = wait_seconds(certificate, CLIENT, now, share)
    assert wait == max((due - now).total_seconds(), 0)
    assert is_valid(certificate, now) is (now <= end)


def test_wish_that_has_no_certificate_does_not_wait() -> None:
    """Nor does one whose certificate has become another's, as when an address changes."""
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
    """A certificate counts once it is approved; a refusal is final and says why."""
    request = a_request(*conditions, certificate=b"pem" if has_certificate else None)
    if isinstance(outcome, str):
        with pytest.raises(RequestRefused) as refused:
            issued_certificate(request, "")
        assert str(refused.value) == outcome
    else:
        assert issued_certificate(request, "") == outcome


def test_request_that_was_made_anew_is_not_ours() -> None:
    """Its key is another's."""
    with pytest.raises(RequestRefused, match=GONE):
        issued_certificate(a_request("Approved"), "another-uid")


def test_request_without_a_name_gets_one_from_the_server() -> None:
    """Renewals need none that lasts."""
    made = request_object(CLIENT, a_key().public_key(), b"pem")
    assert (made.metadata.name, made.metadata.generate_name) == ("", "csr-")
    assert (CLIENT.file_name, SERVING.file_name) == ("kubelet-client", "kubelet-server")
