"""When a certificate is due to be replaced (pure).

Upstream: client-go/util/certificate/certificate_manager.go (nextRotationDeadline, jitteryDuration)
"""

from datetime import datetime

from cryptography import x509

from pykubelet.kube.certificates.wish import Wish, satisfies

# Nodes that joined together shall not all ask at once for the rest of their lives.
_EARLIEST, _SPREAD = 0.7, 0.2


def rotation_at(certificate: x509.Certificate, share: float) -> datetime:
    """The time between 70 and 90 % of the certificate's life that a share between 0 and 1 stands for."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start + (end - start) * (_EARLIEST + _SPREAD * share)


def wait_seconds(certificate: x509.Certificate | None, wish: Wish, now: datetime, share: float) -> float:
    """How long a certificate will do; 0 if there is none, or not the one that is wished for."""
    if certificate is None or not satisfies(certificate, wish):
        return 0.0
    return max((rotation_at(certificate, share) - now).total_seconds(), 0.0)


def lasts_longer(certificate: x509.Certificate, other: x509.Certificate | None) -> bool:
    """Whether it is the better one of two."""
    return other is None or certificate.not_valid_after_utc > other.not_valid_after_utc


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is not over yet. One that has not begun is a matter of clocks."""
    return now <= certificate.not_valid_after_utc
