"""Who calls, as certificates say it.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go (CommonNameUserConversion)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.x509.oid import NameOID

AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Caller:
    """A user with its groups."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """What tells callers with different rights apart."""
        return self.name, self.uid, self.groups, tuple(sorted(self.extra.items()))


def caller_of_certificate(certificate: bytes) -> Caller | None:
    """The user of a client certificate (DER) that TLS has checked; None if it names none."""
    try:
        subject = x509.load_der_x509_certificate(certificate).subject
    except ValueError:
        return None
    names = [_text(found) for found in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [_text(found) for found in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if not names or not names[-1]:
        return None
    return Caller(names[-1], (*groups, *(() if AUTHENTICATED in groups else (AUTHENTICATED,))))


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    value = attribute.value
    return value if isinstance(value, str) else value.decode(errors="replace")
