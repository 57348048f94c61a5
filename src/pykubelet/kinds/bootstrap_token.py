"""Bootstrap tokens, with which machines join a cluster: their form, and the Secrets that keep them.

Upstream: staging/src/k8s.io/cluster-bootstrap/token/api/types.go,
staging/src/k8s.io/cluster-bootstrap/token/util/helpers.go, staging/src/k8s.io/cluster-bootstrap/util/tokens/tokens.go
"""

import base64
import binascii
import hmac
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from pykubelet.aio.ids import random_text
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time, parse_time

SECRET_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105  a type's name
SECRET_PREFIX = "bootstrap-token-"  # noqa: S105  of objects' names
SECRET_NAMESPACE = "kube-system"  # noqa: S105  of these objects
BOOTSTRAPPERS = "system:bootstrappers"
NODE_GROUP = "system:bootstrappers:kubeadm:default-node-token"
"""The group of tokens with which nodes may join, as kubeadm names it."""
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_LETTERS = string.ascii_lowercase + string.digits
_ID_LENGTH, _SECRET_LENGTH = 6, 16


class TokenFormatError(ValueError):
    """A text is not a bootstrap token; the message never repeats it."""


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """A token: the identifier, which is public, and the secret."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The token of a text; TokenFormatError if it is not one."""
        found = _TOKEN.fullmatch(text)
        if found is None:
            raise TokenFormatError("a bootstrap token has the form abcdef.0123456789abcdef")
        return cls(found[1], found[2])

    @classmethod
    def generate(cls) -> Self:
        """A new random token."""
        return cls(random_text(_LETTERS, _ID_LENGTH), random_text(_LETTERS, _SECRET_LENGTH))

    @property
    def text(self) -> str:
        """The token as users pass it; a secret."""
        return f"{self.id}.{self.secret}"

    @property
    def secret_name(self) -> str:
        """The name of its Secret in `kube-system`."""
        return SECRET_PREFIX + self.id

    def matches(self, data: Mapping[str, str]) -> bool:
        """Whether this token is that of a Secret with this data."""
        # Compared in constant time, so that timing reveals nothing.
        is_secret = hmac.compare_digest(data.get("token-secret", "").encode(), self.secret.encode())
        return is_secret and data.get("token-id") == self.id


def token_secret(token: BootstrapToken, *, expires: datetime, description: str) -> Document:
    """The Secret of a token with which nodes may join until it expires."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {"name": token.secret_name, "namespace": SECRET_NAMESPACE},
        "stringData": {
            "token-id": token.id,
            "token-secret": token.secret,
            "expiration": format_time(expires),
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": NODE_GROUP,
            "description": description,
        },
    }


def token_data(secret: Document) -> dict[str, str]:
    """The decoded data of a token's Secret; what is not text is empty."""
    return {name: _text(value) for name, value in (secret.get("data") or {}).items()}


def extra_groups(data: Mapping[str, str]) -> tuple[str, ...] | None:
    """The groups of a token's user; None if one of them is not allowed."""
    text = data.get("auth-extra-groups", "")
    extra = text.split(",") if text else []
    if not all(_GROUP.fullmatch(group) for group in extra):
        return None
    return tuple(sorted({BOOTSTRAPPERS, *extra}))


def has_expired(data: Mapping[str, str], now: datetime) -> bool:
    """Whether a token has expired; an invalid time counts as past."""
    if not (expiration := data.get("expiration", "")):
        return False
    try:
        return parse_time(expiration) <= now
    except ValueError:
        return True


def _text(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
