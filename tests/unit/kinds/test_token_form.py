"""Bootstrap tokens: their form, and the Secrets made of them."""

import base64
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kinds.bootstrap_token import (
    NODE_GROUP,
    BootstrapToken,
    TokenFormatError,
    extra_groups,
    has_expired,
    token_data,
    token_secret,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@given(st.text(max_size=30))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    if re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", text):
        assert BootstrapToken.parse(text).text == text
    else:
        with pytest.raises(TokenFormatError):
            BootstrapToken.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abcdef",
        "abcdef.0123456789abcde",
        "abcdef.0123456789abcdef0",
        "ABCDEF.0123456789abcdef",
        "abcdef.0123456789abcdef\n",
    ],
)
def test_garbled_token_is_refused(text: str) -> None:
    with pytest.raises(TokenFormatError, match="has the form abcdef"):
        BootstrapToken.parse(text)


def test_generated_tokens_are_tokens_and_differ() -> None:
    made = {BootstrapToken.generate() for _ in range(100)}
    assert len(made) == len({each.id for each in made}) == len({each.secret for each in made}) == 100
    assert all(BootstrapToken.parse(each.text) == each for each in made)


def test_secret_of_a_token_lets_nodes_join_until_it_expires() -> None:
    token = BootstrapToken.parse("abcdef.0123456789abcdef")
    made = token_secret(token, expires=NOW + timedelta(hours=1), description="test")
    assert made["metadata"] == {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}
    stored = {name: base64.b64encode(text.encode()).decode() for name, text in made["stringData"].items()}
    data = token_data({"data": stored})
    assert token.matches(data)
    assert not BootstrapToken.parse("abcdef.0123456789abcdee").matches(data)
    assert extra_groups(data) == ("system:bootstrappers", NODE_GROUP)
    assert data["usage-bootstrap-authentication"] == "true"
    assert not has_expired(data, NOW + timedelta(minutes=59))
    assert has_expired(data, NOW + timedelta(hours=1))


def test_secret_part_does_not_show_in_a_repr() -> None:
    assert "0123456789abcdef" not in repr(BootstrapToken.parse("abcdef.0123456789abcdef"))
