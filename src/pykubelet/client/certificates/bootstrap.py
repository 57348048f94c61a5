"""TLS bootstrap: gets a node's first client certificate with a token and writes its kubeconfig.

Writes `kubelet-client-current.pem` and a kubeconfig that refers to it. The private key is kept until the certificate is
issued, so that a restarted node continues with the same request.

Upstream: pkg/kubelet/certificate/bootstrap/bootstrap.go
"""

import asyncio
import base64
import os
from pathlib import Path

from cryptography import x509

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Unauthorized
from pykubelet.api.serializer import Document
from pykubelet.api.yaml.write import to_yaml
from pykubelet.client.certificates.csr import (
    client_template,
    key_pem,
    new_key,
    request_certificate_once,
    wait_for_certificate,
)
from pykubelet.client.certificates.manager import is_valid
from pykubelet.client.certificates.store import (
    CertificateStore,
    CertificateStoreError,
    PrivateKey,
    read_key,
    write_secret,
)
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.interface import Client
from pykubelet.client.kubeconfig import KubeconfigError
from pykubelet.client.transport import CredentialError, RestConfig

log = get_logger(__name__)

SIGNING_SECONDS = 3600.0
"""How long an administrator may take to approve the request."""
_BACKOFF = Backoff(first_seconds=1.0, limit_seconds=15.0, jitter=0.2)


async def needs_bootstrap(kubeconfig: Path, clock: Clock) -> bool:
    """Whether a kubeconfig is missing or has no valid client certificate."""
    if not await asyncio.to_thread(kubeconfig.exists):
        return True
    try:
        access = load_kubeconfig((str(kubeconfig),), environment=os.environ, clock=clock)
        pair = (await access.credentials.current()).pair
        certificates = x509.load_pem_x509_certificates(pair.certificate) if pair else []
    except (KubeconfigError, CredentialError, ValueError) as error:
        log.warning("kubeconfig unusable, bootstrapping again", path=kubeconfig, error=error)
        return True
    return not certificates or not all(is_valid(certificate, clock.now()) for certificate in certificates)


async def bootstrap(
    client: Client, *, access: RestConfig, node_name: str, kubeconfig: Path, files: CertificateStore, clock: Clock
) -> None:
    """Get the certificate and write the kubeconfig; waits for a server that is not running yet.

    Raises RequestRefused, ApiError, CertificateStoreError or TimeoutError if that is impossible.
    """
    template, kept_key = client_template(node_name), files.current_path.with_name("kubelet-client.key.tmp")
    key = await asyncio.to_thread(_kept_key, kept_key)
    retries = Retries(_BACKOFF)
    async with asyncio.timeout(SIGNING_SECONDS):
        while True:
            try:
                request = await request_certificate_once(client, template, key, now=clock.now())
                break
            except Unauthorized:
                raise
            except ApiError as error:
                if not error.retry:
                    raise
                log.warning("certificate request failed, trying again", error=error)
            await asyncio.sleep(retries.next_delay_seconds())
        log.info("waiting for the node's client certificate", request=request.metadata.name)
        pem = await wait_for_certificate(client, request)
    await asyncio.to_thread(files.replace, pem, key_pem(key), now=clock.now())
    text = to_yaml(node_kubeconfig(access, files.current_path)).encode()
    await asyncio.to_thread(_written, kubeconfig, text, kept_key)


def node_kubeconfig(access: RestConfig, pair: Path) -> Document:
    """The kubeconfig of a node whose certificate and key are in this file."""
    cluster: Document = {"server": access.server}
    if (ca := access.trust.ca) is not None:
        data = {"certificate-authority-data": base64.b64encode(ca.data).decode()}
        cluster |= {"certificate-authority": ca.path} if ca.path else data
    if access.trust.server_name:
        cluster["tls-server-name"] = access.trust.server_name
    if access.trust.insecure:
        cluster["insecure-skip-tls-verify"] = True
    path = str(pair.absolute())
    context = {"cluster": "default-cluster", "user": "default-auth", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "users": [{"name": "default-auth", "user": {"client-certificate": path, "client-key": path}}],
        "contexts": [{"name": "default-context", "context": context}],
        "current-context": "default-context",
    }


def _kept_key(path: Path) -> PrivateKey:
    try:
        return read_key(path.read_bytes())
    except (OSError, ValueError):
        key = new_key()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(path, key_pem(key))
    except OSError as error:
        raise CertificateStoreError(f"{error.filename or path}: {error.strerror or error}") from error
    return key


def _written(kubeconfig: Path, text: bytes, kept_key: Path) -> None:
    try:
        kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        write_secret(kubeconfig, text)
        kept_key.unlink(missing_ok=True)
    except OSError as error:
        raise CertificateStoreError(f"{error.filename or kubeconfig}: {error.strerror or error}") from error
