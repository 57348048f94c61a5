"""The certificate store: a certificate and its key in one file, behind a link to the current file.

`NAME-current.pem` links to `NAME-DATE.pem`. The link is replaced atomically: readers get the old pair or the new one.
Files are readable by their owner only.

Upstream: staging/src/k8s.io/client-go/util/certificate/certificate_store.go
"""

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_KEPT = 2
"""The number of old pairs that are kept for processes that have one open; upstream keeps all."""


class CertificateStoreError(Exception):
    """A pair cannot be read or written; the message names the file, never its content."""


@dataclass(frozen=True, slots=True)
class CertificatePair:
    certificate: x509.Certificate
    key: PrivateKey = field(repr=False)


class CertificateStore:
    """The pairs with one file name prefix. All calls block."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    @property
    def current_path(self) -> Path:
        """The path of the link; it may not exist."""
        return self._folder / f"{self._name}-current.pem"

    def current(self) -> CertificatePair | None:
        """The current pair; None if there is none. CertificateStoreError if it cannot be read."""
        self._recover()
        try:
            return read_pair(self.current_path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CertificateStoreError(f"{self.current_path} holds no certificate with its key") from error

    def replace(self, certificate_pem: bytes, key_pem: bytes, *, now: datetime) -> CertificatePair:
        """Store a new pair and make it current; CertificateStoreError if it is invalid or cannot be written."""
        text = certificate_pem.rstrip() + b"\n" + key_pem
        try:
            pair = read_pair(text)
        except ValueError as error:
            raise CertificateStoreError(
                f"the certificate that was issued is not one for the key of {self._name}"
            ) from error
        path = self._folder / f"{self._name}-{now:%Y-%m-%d-%H-%M-%S}.pem"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_secret(path, text)
            self._use(path)
            self._forget_old(path)
        except OSError as error:
            raise CertificateStoreError(f"{error.filename or path}: {error.strerror or error}") from error
        return pair

    def _use(self, path: Path) -> None:
        current, updated = self.current_path, self._folder / f"{self._name}-updated.pem"
        if current.exists() and not current.is_symlink():
            raise CertificateStoreError(f"{current} is a file and no link: it was not made by a node")
        updated.unlink(missing_ok=True)
        updated.symlink_to(path.absolute())
        updated.replace(current)

    def _recover(self) -> None:
        """Finish an interrupted replacement, ours or a kubelet's, which removes the link first."""
        updated = self._folder / f"{self._name}-updated.pem"
        if updated.is_symlink() and not self.current_path.exists():
            updated.replace(self.current_path)

    def _forget_old(self, newest: Path) -> None:
        dated = sorted(self._folder.glob(f"{self._name}-[0-9]*.pem"))
        for path in [each for each in dated if each != newest][:-_KEPT]:
            path.unlink(missing_ok=True)


def read_pair(pem: bytes) -> CertificatePair:
    """The first certificate in a PEM text and its key; ValueError if they are missing or do not match."""
    certificate = x509.load_pem_x509_certificate(pem)
    key = read_key(pem)
    if certificate.public_key() != key.public_key():
        raise ValueError("the key is not the one of the certificate")
    return CertificatePair(certificate, key)


def read_key(pem: bytes) -> PrivateKey:
    """The private key in a PEM text; ValueError if there is no usable one."""
    start = max(pem.rfind(mark) for mark in (b"-----BEGIN PRIVATE KEY", b"-----BEGIN EC P", b"-----BEGIN RSA P"))
    try:
        key = load_pem_private_key(pem[max(start, 0) :], password=None)
    except (ValueError, TypeError) as error:
        raise ValueError("there is no private key that can be read") from error
    if not isinstance(key, PrivateKey):
        raise ValueError("the private key is neither an RSA nor an elliptic curve key")  # noqa: TRY004  bad content
    return key


def write_secret(path: Path, data: bytes) -> None:
    """Atomically replace a file by one that only its owner can read; durable when this returns."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
