"""The TLS that everything here serves with: 1.2 or newer, and only ciphers that are thought safe.

Of TLS 1.2 those with forward secrecy that authenticate what they encrypt; of 1.3 all. They are the ones that the CIS
benchmark for Kubernetes names (4.2.12), without those that use a server's key to encrypt.
"""

import ssl

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


def serving_context() -> ssl.SSLContext:
    """A context for a server of HTTP; its certificate, and whom it trusts, are for the caller to add."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    return context
