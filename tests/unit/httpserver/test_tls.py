"""TLS settings of all servers."""

import ssl

from pykubelet.httpserver.listener import serving_context


def test_only_safe_ciphers_are_offered() -> None:
    """TLS 1.2 with forward secrecy and authenticated encryption, or 1.3."""
    context = serving_context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    ciphers = context.get_ciphers()
    assert {cipher["protocol"] for cipher in ciphers} == {"TLSv1.2", "TLSv1.3"}
    for cipher in ciphers:
        assert cipher["aead"], cipher["name"]
        assert cipher["name"].startswith(("ECDHE-", "TLS_")), cipher["name"]
