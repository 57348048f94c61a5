"""The certificates of the ingress controller: chosen by server name, replaced while it runs, self-made as a last resort."""

import os
import resource
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme
from cryptography import x509

from ingress_lab import HOST, IngressLab, echo_server, ingress, ingress_lab, tls_secret
from pykubelet.aio.clock import SystemClock
from pykubelet.api.generated.core import Secret
from pykubelet.api.generated.networking import IngressTLS
from pykubelet.ingress.certificates import IngressCertificates

RULE = (HOST, "Prefix", "/", "web")


@pytest.fixture
async def lab() -> AsyncIterator[IngressLab]:
    async with ingress_lab() as found:
        yield found


def _secret(authority: trustme.CA, name: str, *hosts: str) -> Secret:
    issued = authority.issue_cert(*hosts)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return tls_secret(name, chain, issued.private_key_pem.bytes())


def _trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def _served(lab: IngressLab, name: str) -> x509.Certificate:
    """The certificate for a server name, whoever signed it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await lab.connect(tls=context, server_name=name)
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(certificate)


async def test_each_host_has_the_certificate_of_its_secret(lab: IngressLab) -> None:
    authority = trustme.CA()
    lab.certificates.put_secret(_secret(authority, "web", HOST))
    lab.certificates.put_secret(_secret(authority, "wild", "*.wild.example.com"))
    tls = (
        IngressTLS(hosts=(HOST,), secret_name="web"),
        IngressTLS(hosts=("*.wild.example.com",), secret_name="wild"),
    )
    lab.certificates.put(ingress("web", RULE, tls=tls))
    lab.routes.put(ingress("web", RULE, ("*.wild.example.com", "Prefix", "/", "web"), tls=tls))
    async with echo_server() as server:
        lab.serve(server.port)
        for host in (HOST, "a.wild.example.com"):
            reader, writer = await lab.connect(tls=_trusting(authority), server_name=host)
            writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            assert b"200 OK" in answer
            assert b"X-Forwarded-Proto: https" in answer
            assert f"X-Forwarded-Port: {lab.https_port}".encode() in answer
    for host in ("wild.example.com", "a.b.wild.example.com", "other.example.com"):
        with pytest.raises(ssl.SSLCertVerificationError):
            await lab.connect(tls=_trusting(authority), server_name=host)


async def test_changed_secret_is_served_at_once(lab: IngressLab) -> None:
    first, second = trustme.CA(), trustme.CA()
    lab.certificates.put(ingress("web", RULE, tls=(IngressTLS(secret_name="web"),)))
    lab.certificates.put_secret(_secret(first, "web", HOST))
    _, early = await lab.connect(tls=_trusting(first))
    lab.certificates.put_secret(_secret(second, "web", HOST))
    _, late = await lab.connect(tls=_trusting(second))
    with pytest.raises(ssl.SSLCertVerificationError):
        await lab.connect(tls=_trusting(first))
    # The earlier connection goes on.
    assert not early.is_closing()
    early.close()
    late.close()


async def test_missing_or_broken_secret_leaves_the_self_made_certificate_and_a_reason(lab: IngressLab) -> None:
    lab.certificates.put(ingress("web", RULE, tls=(IngressTLS(hosts=(HOST,), secret_name="web"),)))
    own = await _served(lab, "nobody.example.com")
    assert own.issuer == own.subject
    assert [secret for secret, _ in lab.certificates.problems("default/web")] == ["default/web"]
    one, other = (_secret(trustme.CA(), "web", HOST) for _ in range(2))
    mixed = tls_secret("web", one.data["tls.crt"], other.data["tls.key"])
    for broken in (tls_secret("web", b"no certificate", b"secret words"), tls_secret("web", b"", b""), mixed):
        lab.certificates.put_secret(broken)
        assert await _served(lab, HOST) == own
        ((secret, reason),) = lab.certificates.problems("default/web")
        assert secret == "default/web"
        assert "cannot be used" in reason
        assert "secret words" not in reason
    lab.certificates.put_secret(one)
    assert await _served(lab, HOST) != own
    assert not list(lab.certificates.problems("default/web"))
    lab.certificates.remove_secret(one)
    assert await _served(lab, HOST) == own


def test_certificate_that_cannot_be_loaded_for_a_moment_is_tried_again() -> None:
    """A program without free files must not end, nor keep the self-made certificate."""
    certificates = IngressCertificates(SystemClock())
    certificates.put_secret(_secret(trustme.CA(), "web", HOST))
    certificates.put(ingress("web", RULE, tls=(IngressTLS(hosts=(HOST,), secret_name="web"),)))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        ((_, reason),) = certificates.problems("default/web")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert reason == "it cannot be loaded now: Too many open files"
    assert not list(certificates.problems("default/web"))
    assert certificates.context(HOST) is not None


async def test_oldest_ingress_chooses_the_certificate_of_a_host(lab: IngressLab) -> None:
    authorities = {name: trustme.CA() for name in ("old", "new")}
    for name, authority in authorities.items():
        lab.certificates.put_secret(_secret(authority, name, HOST))
        day = {"old": 1, "new": 2}[name]
        tls = (IngressTLS(hosts=(HOST,), secret_name=name),)
        lab.certificates.put(ingress(name, RULE, tls=tls, created=f"2026-01-0{day}T00:00:00Z"))
    for name in ("old", "new"):
        with pytest.raises(ssl.SSLCertVerificationError):
            await lab.connect(tls=_trusting(trustme.CA()))
        _, writer = await lab.connect(tls=_trusting(authorities[name]))
        assert writer.get_extra_info("peercert")
        writer.close()
        lab.certificates.remove(f"default/{name}")


async def test_versions_before_tls_1_2_are_refused(lab: IngressLab) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await lab.connect(tls=context)
