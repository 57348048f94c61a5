"""Certificate signing requests: parsing, signature checks, and the rules for kubelet requests."""

import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from certificates import a_key, request_pem
from pykubelet.api.certificates import (
    RequestError,
    common_name,
    kubelet_client_problem,
    kubelet_serving_problem,
    organizations,
    parse_request,
    signed_request,
)
from pykubelet.client.certificates.csr import client_template

DNS, ADDRESS = x509.DNSName("n1"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
MAIL, URI = x509.RFC822Name("a@example.com"), x509.UniformResourceIdentifier("https://example.com/")
NODE, GROUPS = "system:node:n1", ("system:nodes",)
ORGANIZATION, NAME = "subject organization is not system:nodes", "subject common name does not begin with system:node:"
CLIENT, SERVER = ("digital signature", "client auth"), ("digital signature", "server auth")


def request(user: str, groups: tuple[str, ...], *names: x509.GeneralName) -> x509.CertificateSigningRequest:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    attributes += [x509.NameAttribute(NameOID.COMMON_NAME, user)] if user else []
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(a_key(), SHA256())


@pytest.mark.parametrize(
    ("made", "usages", "problem"),
    [
        (request(NODE, GROUPS), CLIENT, ""),
        (request(NODE, GROUPS), (*CLIENT, "key encipherment"), ""),
        (request(NODE, ()), CLIENT, ORGANIZATION),
        (request(NODE, ("system:nodes", "system:masters")), CLIENT, ORGANIZATION),
        (request("", GROUPS), CLIENT, NAME),
        (request("n1", GROUPS), CLIENT, NAME),
        (request(NODE, GROUPS, DNS), CLIENT, "DNS subjectAltNames are not allowed"),
        (request(NODE, GROUPS, ADDRESS), CLIENT, "IP subjectAltNames are not allowed"),
        (request(NODE, GROUPS, MAIL), CLIENT, "Email subjectAltNames are not allowed"),
        (request(NODE, GROUPS, URI), CLIENT, "URI subjectAltNames are not allowed"),
        (
            request(NODE, GROUPS),
            SERVER,
            "usages did not match [client auth digital signature key encipherment]",
        ),
    ],
)
def test_client_request_of_a_node(made: x509.CertificateSigningRequest, usages: tuple[str, ...], problem: str) -> None:
    """A kubelet client request has one user, one group, no SANs, and only usages for client authentication."""
    assert kubelet_client_problem(made, usages) == problem


@pytest.mark.parametrize(
    ("made", "usages", "problem"),
    [
        (request(NODE, GROUPS, DNS, ADDRESS), SERVER, ""),
        (request(NODE, GROUPS, ADDRESS), (*SERVER, "key encipherment"), ""),
        (request(NODE, GROUPS), SERVER, "DNS or IP subjectAltName is required"),
        (request(NODE, ("other",), DNS), SERVER, ORGANIZATION),
        (request("n1", GROUPS, DNS), SERVER, NAME),
        (request(NODE, GROUPS, DNS, MAIL), SERVER, "Email subjectAltNames are not allowed"),
        (request(NODE, GROUPS, DNS, URI), SERVER, "URI subjectAltNames are not allowed"),
        (
            request(NODE, GROUPS, DNS),
            CLIENT,
            "usages did not match [digital signature key encipherment server auth]",
        ),
    ],
)
def test_serving_request_of_a_node(made: x509.CertificateSigningRequest, usages: tuple[str, ...], problem: str) -> None:
    """A kubelet serving request has host names and addresses, and only usages for server authentication."""
    assert kubelet_serving_problem(made, usages) == problem


def test_request_is_parsed_with_text_before_its_pem_block() -> None:
    """Go's PEM reader skips such text, too."""
    made = parse_request(b"a comment\n" + request_pem(client_template("n1"), a_key()))
    assert (common_name(made), organizations(made)) == (NODE, ["system:nodes"])


def test_request_signed_with_another_key_is_refused() -> None:
    """The signature proves possession of the private key."""
    der = bytearray(request(NODE, GROUPS).public_bytes(Encoding.DER))
    # Changes the last letter of the group, so that the signature does not match the content.
    der[der.index(b"system:nodes") + 11] ^= 1
    forged = x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)
    with pytest.raises(RequestError, match="the signature of the certificate request is not by its key"):
        signed_request(forged)


@settings(max_examples=100)
@given(st.binary(max_size=200), st.integers(0, 400), st.booleans())
def test_any_text_is_a_request_or_refused(noise: bytes, place: int, whole: bool) -> None:
    """Parsing arbitrary bytes raises nothing but RequestError."""
    pem = request_pem(client_template("n1"), a_key())
    text = noise if whole else pem[:place] + noise + pem[place + len(noise) :]
    try:
        problem = kubelet_client_problem(signed_request(text), CLIENT)
    except RequestError as error:
        problem = str(error)
    assert problem or b"CERTIFICATE REQUEST" in text


def test_subject_that_is_no_text_is_an_error_of_the_request() -> None:
    plain = request(NODE, GROUPS).public_bytes(Encoding.DER)
    made = x509.load_der_x509_csr(plain.replace(b"node:n1", b"node:\xff1"))
    with pytest.raises(RequestError, match="the subject of the certificate request cannot be read"):
        common_name(made)
