"""Bootstrap tokens: which secrets authenticate a token, and as which user."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from access_objects import CountingIds, opened, put
from pykubelet.api.errors import Unauthorized
from pykubelet.apiserver.authentication.authenticator import Authenticator, bootstrap_secret, bootstrap_user
from pykubelet.apiserver.authentication.serviceaccount import ServiceAccountTokens, TokenError
from pykubelet.apiserver.certs.certificates import new_key
from pykubelet.apiserver.request import UserInfo
from pykubelet.testing.virtual_time import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
TOKEN = "abcdef.0123456789abcdef"
USER = UserInfo("system:bootstrap:abcdef", ("system:bootstrappers",))
DATA = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}


def secret(metadata: dict[str, Any] | None = None, *, type: str = "bootstrap.kubernetes.io/token", **data: str) -> Any:
    texts = DATA | {name.replace("_", "-"): value for name, value in data.items()}
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in texts.items()}
    return {
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system", **(metadata or {})},
        "type": type,
        "data": encoded,
    }


@pytest.mark.parametrize(
    ("found", "user"),
    [
        (secret(), USER),
        (secret(expiration="2026-05-01T12:00:01Z"), USER),
        (
            secret(auth_extra_groups="system:bootstrappers:b,system:bootstrappers:a"),
            UserInfo(USER.name, ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b")),
        ),
        (secret(expiration="2026-05-01T12:00:00Z"), None),
        (secret(expiration="tomorrow"), None),
        (secret(auth_extra_groups="system:masters"), None),
        (secret(auth_extra_groups="system:bootstrappers:"), None),
        (secret(usage_bootstrap_authentication="false"), None),
        (secret(token_secret="0123456789abcdeX"), None),
        (secret(token_id="other0"), None),
        (secret(type="Opaque"), None),
        (secret({"deletionTimestamp": "2026-05-01T11:00:00Z"}), None),
        (secret() | {"data": {"token-secret": "%"}}, None),
    ],
    ids=[
        *("plain", "not over", "groups", "over", "no time", "no group of ours", "empty group"),
        *("not for this", "wrong", "another's", "type", "deleted", "no base64"),
    ],
)
def test_secret_authenticates_its_bootstrap_token(found: Any, user: UserInfo | None) -> None:
    """All fields must be valid, and extra groups must be groups of bootstrappers."""
    assert bootstrap_user(TOKEN, found, NOW) == user


@given(st.text(max_size=30) | st.from_regex(r"[a-z0-9]{5,7}\.[a-z0-9]{15,17}"))
def test_only_well_formed_tokens_name_a_secret(token: str) -> None:
    """Other texts authenticate no user."""
    name = bootstrap_secret(token)
    assert name in ("", f"bootstrap-token-{token[:6]}")
    if not name:
        assert bootstrap_user(token, secret(), NOW) is None


async def test_bootstrap_token_authenticates_while_its_secret_exists(tmp_path: Path) -> None:
    """Requests and token reviews accept it; without the secret it is refused."""
    clock = VirtualClock()
    async with opened(tmp_path) as store:
        tokens = ServiceAccountTokens(new_key(), store.get, clock=clock, ids=CountingIds())
        authenticator = Authenticator(tokens, clock=clock, newest=store.newest)
        with pytest.raises(Unauthorized):
            authenticator.token_user(TOKEN)
        await put(store, "secrets", secret())
        user = authenticator.authenticate({"Authorization": f"Bearer {TOKEN}"}, None)
        assert (user.name, user.groups) == (USER.name, ("system:bootstrappers", "system:authenticated"))
        assert authenticator.review(TOKEN, ())[0] == user
        with pytest.raises(TokenError):
            authenticator.review(TOKEN, ("vault",))
