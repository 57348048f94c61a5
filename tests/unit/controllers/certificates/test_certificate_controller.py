"""CertificateSigningRequests: which are approved, which are signed, and when they are deleted."""

from datetime import datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from certificates import NOW, YEAR, a_request, an_authority, certificate_pem
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.times import format_time
from pykubelet.client.certificates.csr import CertificateTemplate, client_template, serving_template
from pykubelet.controllers.certificates.certificate_controller import (
    csr_deletion_time,
    csr_problem,
    csr_recognizers,
    is_to_sign,
    new_access_review,
)
from pykubelet.controllers.certificates.signer import LIFE, AuthorityExpired, certificate_lifetime, sign_certificate

CLIENT, SERVING = client_template("n1"), serving_template("n1", ["n1", "10.0.0.1"])
OTHER = CertificateTemplate("kubernetes.io/kube-apiserver-client", "system:node:n1")


def by(user: str, request: CertificateSigningRequest) -> CertificateSigningRequest:
    return msgspec.structs.replace(request, spec=msgspec.structs.replace(request.spec, username=user))


def using(request: CertificateSigningRequest, *usages: str) -> CertificateSigningRequest:
    return msgspec.structs.replace(request, spec=msgspec.structs.replace(request.spec, usages=usages))


@pytest.mark.parametrize(
    ("request_", "asked"),
    [
        (by("system:bootstrap:abcdef", a_request()), ["nodeclient"]),
        (by("system:node:n1", a_request()), ["selfnodeclient", "nodeclient"]),
        (by("system:node:n2", a_request()), ["nodeclient"]),
        (by("system:node:n1", a_request(wish=SERVING)), []),
        (a_request("Approved"), []),
        (a_request("Denied"), []),
        (a_request(certificate=b"x"), []),
        (using(a_request(), "digital signature", "client auth", "server auth"), []),
    ],
    ids=["token", "itself", "another node", "serving", "approved", "denied", "issued", "usages"],
)
def test_rights_that_approve_a_request(request_: CertificateSigningRequest, asked: list[str]) -> None:
    """A node may renew its own client certificate, a bootstrap token may request the first.

    Others need manual approval.
    """
    assert [question.subresource for question in csr_recognizers(request_)] == asked


def test_access_review_is_for_the_requesting_user() -> None:
    asker = by("system:node:n1", a_request())
    spec = new_access_review(asker, csr_recognizers(asker)[0]).spec
    attributes = spec.resource_attributes
    assert attributes is not None
    assert (spec.user, attributes.verb, attributes.group) == ("system:node:n1", "create", "certificates.k8s.io")
    assert (attributes.resource, attributes.subresource) == ("certificatesigningrequests", "selfnodeclient")


@pytest.mark.parametrize(
    ("request_", "signs"),
    [
        (a_request(), False),
        (a_request("Approved"), True),
        (a_request("Approved", wish=SERVING), True),
        (a_request("Approved", "Failed"), False),
        (a_request("Approved", "Denied"), False),
        (a_request("Approved", certificate=b"x"), False),
    ],
    ids=["pending", "client", "serving", "failed", "denied", "issued"],
)
def test_approved_requests_are_signed_once(request_: CertificateSigningRequest, signs: bool) -> None:
    """Failed, denied and issued requests are not signed."""
    assert is_to_sign(request_) is signs


def test_request_for_another_signer_is_left_alone() -> None:
    """It is neither approved nor, once approved, signed."""
    other = msgspec.structs.replace(a_request().spec, signer_name="example.com/other")
    assert not is_to_sign(msgspec.structs.replace(a_request("Approved"), spec=other))
    assert csr_recognizers(msgspec.structs.replace(a_request(), spec=other)) == ()


def test_invalid_request_is_described() -> None:
    """The text is for a condition of the request."""
    spec = a_request().spec
    broken = msgspec.structs.replace(a_request(), spec=msgspec.structs.replace(spec, request=b"x"))
    assert csr_problem(broken) == "PEM block type must be CERTIFICATE REQUEST"
    wanted = "usages did not match [client auth digital signature key encipherment]"
    assert csr_problem(using(a_request(), "client auth")) == wanted
    assert csr_problem(a_request()) == ""


def at(**passed: float) -> datetime:
    return NOW + timedelta(**passed)


@pytest.mark.parametrize(
    ("request_", "due"),
    [
        (a_request(), None),
        (a_request("Denied", changed=format_time(NOW)), at(hours=1)),
        (a_request("Approved", changed=format_time(NOW)), None),
        (a_request("Approved", certificate=certificate_pem(CLIENT), changed=format_time(NOW)), at(hours=1)),
        (a_request("Approved", certificate=certificate_pem(CLIENT, seconds=600)), at(minutes=10)),
        (a_request("Approved", certificate=b"x"), None),
    ],
    ids=["age unknown", "denied", "approved", "issued", "over", "unreadable"],
)
def test_requests_go_when_they_are_over(request_: CertificateSigningRequest, due: datetime | None) -> None:
    """Requests are deleted an hour after they are denied or issued, or when the certificate expires."""
    assert csr_deletion_time(request_) == due


def test_pending_request_is_deleted_after_a_day() -> None:
    metadata = msgspec.structs.replace(a_request().metadata, creation_timestamp=format_time(NOW))
    assert csr_deletion_time(msgspec.structs.replace(a_request(), metadata=metadata)) == at(days=1)


def test_certificate_has_the_requested_names_and_usages() -> None:
    """It is not a CA certificate, and our authority signed it."""
    certificate = x509.load_pem_x509_certificate(certificate_pem(SERVING))
    certificate.verify_directly_issued_by(an_authority().certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    extensions = certificate.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]


@settings(max_examples=50)
@given(st.none() | st.integers(0, 2**31 - 1))
def test_life_is_between_ten_minutes_and_a_year(seconds: int | None) -> None:
    """A requested lifetime outside these limits is clamped."""
    assert timedelta(minutes=10) <= certificate_lifetime(seconds, LIFE) <= LIFE
    assert (
        seconds is None
        or not 600 <= seconds <= LIFE.total_seconds()
        or certificate_lifetime(seconds, LIFE).total_seconds() == seconds
    )


@pytest.mark.parametrize(
    ("requested", "lasting"), [(600, {"minutes": 10}), (28_799, {"seconds": 28_799}), (28_800, {"minutes": 475})]
)
def test_certificate_is_backdated_and_a_long_one_ends_earlier_by_as_much(
    requested: int, lasting: dict[str, float]
) -> None:
    """Clocks may differ by five minutes; below eight hours the certificate lasts as long as requested."""
    certificate = x509.load_pem_x509_certificate(certificate_pem(CLIENT, seconds=requested))
    assert certificate.not_valid_before_utc == at(minutes=-5)
    assert certificate.not_valid_after_utc == at(**lasting)


def test_certificate_has_the_extensions_of_its_request_and_signs_nothing() -> None:
    """Extensions that limit the key are critical, as in those of kube-controller-manager."""
    certificate = x509.load_pem_x509_certificate(certificate_pem(CLIENT))
    found = {one.value.__class__: one for one in certificate.extensions}
    assert {kind.__name__: one.critical for kind, one in found.items()} == {
        "KeyUsage": True,
        "ExtendedKeyUsage": False,
        "BasicConstraints": True,
        "AuthorityKeyIdentifier": False,
    }
    assert found[x509.BasicConstraints].value == x509.BasicConstraints(ca=False, path_length=None)
    assert found[x509.ExtendedKeyUsage].value == x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])


def test_certificate_ends_with_its_authority_at_the_latest() -> None:
    """An expired authority signs nothing."""
    late = NOW + 10 * YEAR - timedelta(days=1)
    certificate = x509.load_pem_x509_certificate(certificate_pem(CLIENT, at=late))
    assert certificate.not_valid_after_utc == an_authority().certificate.not_valid_after_utc
    request = x509.load_pem_x509_csr(a_request().spec.request or b"")
    with pytest.raises(AuthorityExpired):
        sign_certificate(request, (), authority=an_authority(), now=NOW + 10 * YEAR)
