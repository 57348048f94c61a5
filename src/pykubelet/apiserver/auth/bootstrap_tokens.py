"""Bootstrap tokens: secrets by which a machine that is no node yet may ask to become one (pure).

In: a token of the form ID.SECRET, and the secret object of that ID in kube-system. Out: the user that it stands for.

Upstream: plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go, staging/src/k8s.io/cluster-bootstrap
"""

import base64
import binascii
import hmac
import re
from datetime import datetime

from pykubelet.api.times import parse_time
from pykubelet.api.wire import Document
from pykubelet.apiserver.call import User

SECRET_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105  a type's name
SECRET_PREFIX = "bootstrap-token-"  # noqa: S105  of objects' names
BOOTSTRAPPERS = "system:bootstrappers"

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


def bootstrap_secret(token: str) -> str:
    """The name of the secret that a token must match; empty if it has not the form of a bootstrap token."""
    found = _TOKEN.fullmatch(token)
    return f"{SECRET_PREFIX}{found[1]}" if found else ""


def bootstrap_user(token: str, secret: Document, now: datetime) -> User | None:
    """The user of a token, given the secret of its name; None if the secret does not vouch for it, or no longer."""
    found = _TOKEN.fullmatch(token)
    if found is None or secret.get("type") != SECRET_TYPE or "deletionTimestamp" in secret["metadata"]:
        return None
    data = {name: _text(value) for name, value in (secret.get("data") or {}).items()}
    # All of it is compared, so that the time it takes tells nothing.
    if not hmac.compare_digest(data.get("token-secret", "").encode(), found[2].encode()):
        return None
    is_meant = data.get("token-id") == found[1] and data.get("usage-bootstrap-authentication") == "true"
    groups = _groups(data.get("auth-extra-groups", ""))
    if not is_meant or groups is None or _is_over(data.get("expiration", ""), now):
        return None
    return User(f"system:bootstrap:{found[1]}", groups)


def _groups(text: str) -> tuple[str, ...] | None:
    """All groups; None if one may not be given this way."""
    extra = text.split(",") if text else []
    if not all(_GROUP.fullmatch(group) for group in extra):
        return None
    return tuple(sorted({BOOTSTRAPPERS, *extra}))


def _is_over(expiration: str, now: datetime) -> bool:
    """Whether the time is past; one that cannot be read is."""
    if not expiration:
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
