"""The TLS context with which the server talks to nodes.

It shows who it is, and takes whatever certificate they have. Where a node is, is what the node says: one that points
back at this server must not get more out of it than a node gives, so this user has the rights to nodes and no others
(`default_roles.txt`).

Upstream: pkg/kubelet/client/kubelet_client.go; a kube-apiserver that is not told an authority for its nodes does not
check their certificates either.
"""

import os
import ssl

from pykubelet.aio.clock import Clock
from pykubelet.apiserver.auth.pki import Pki

NAME = "kube-apiserver-kubelet-client"


def node_context(pki: Pki, clock: Clock) -> ssl.SSLContext:
    """A context with a certificate made for this run of the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    pair = pki.client(NAME, (), clock.now())
    # OpenSSL wants a file; one in memory leaves no key behind.
    with os.fdopen(os.memfd_create(NAME), "wb") as file:
        file.write(pair.certificate_pem + pair.key_pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
