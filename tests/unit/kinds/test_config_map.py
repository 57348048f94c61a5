"""The rules of config maps and secrets."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kinds import config_map, secret
from strategy_calls import create, update

CONFIG_MAPS = config_map.KIND.strategy
SECRETS = secret.KIND.strategy


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_plain_text_of_a_secret_becomes_data() -> None:
    """It overrides data of the same key, and is not stored as stringData."""
    secret, messages = create(SECRETS, {"stringData": {"a": "x"}, "data": {"a": _base64("old"), "b": _base64("y")}})
    assert messages == []
    assert secret["data"] == {"a": _base64("x"), "b": _base64("y")}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"


@pytest.mark.parametrize(
    ("secret", "messages"),
    [
        pytest.param(
            {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, ["data[tls.key]: Required value"], id="tls"
        ),
        pytest.param({"type": "kubernetes.io/ssh-auth"}, ["data[ssh-privatekey]: Required value"], id="ssh"),
        pytest.param(
            {"type": "kubernetes.io/basic-auth"},
            ["data[username]: Required value", "data[password]: Required value"],
            id="basic",
        ),
        pytest.param({"type": "kubernetes.io/basic-auth", "data": {"password": ""}}, [], id="password alone"),
        pytest.param(
            {"type": "kubernetes.io/service-account-token"},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            id="token",
        ),
        pytest.param({"type": "kubernetes.io/dockercfg"}, ["data[.dockercfg]: Required value"], id="no docker"),
        pytest.param(
            {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}}, [], id="docker"
        ),
        pytest.param({"type": "example.com/own"}, [], id="own type"),
        pytest.param(
            {"data": {"a b": ""}},
            [
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            ],
            id="bad key",
        ),
    ],
)
def test_secret_has_what_its_type_needs(secret: dict[str, Any], messages: list[str]) -> None:
    assert create(SECRETS, secret)[1] == messages


def test_error_about_a_bad_docker_config_does_not_quote_it() -> None:
    """A password thus never appears in a log."""
    secret = {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "hunter2"}}
    _, messages = create(SECRETS, secret)
    assert len(messages) == 1
    assert messages[0].startswith('data[.dockercfg]: Invalid value: "<secret contents redacted>": ')
    assert "hunter2" not in messages[0]


def test_type_of_a_secret_stays() -> None:
    """An update without a type keeps the stored one; another type is refused."""
    stored, _ = create(SECRETS, {"type": "a/b"})
    assert update(SECRETS, stored, {"type": "c/d"})[1] == ['type: Invalid value: "c/d": field is immutable']
    assert SECRETS.prepare_update({**stored, "type": ""}, stored)["type"] == "a/b"


@pytest.mark.parametrize("strategy", [CONFIG_MAPS, SECRETS], ids=["config map", "secret"])
def test_data_is_frozen_once_the_object_is_immutable(strategy: Any) -> None:
    """Labels may still change."""
    stored, _ = create(strategy, {"immutable": True, "data": {"a": "YQ=="}})
    text = "Forbidden: field is immutable when `immutable` is set"
    assert update(strategy, stored, {"data": {"a": "Yg=="}})[1] == [f"data: {text}"]
    assert update(strategy, stored, {"immutable": None})[1] == [f"immutable: {text}"]
    assert update(strategy, stored, {"metadata": {"labels": {"a": "b"}}})[1] == []


@pytest.mark.parametrize(
    ("data", "is_fine"),
    [
        pytest.param({"data": {"a": "x" * 1024 * 1024}}, True, id="a megabyte"),
        pytest.param({"data": {"a": "x" * 1024 * 1024}, "binaryData": {"b": "AA=="}}, False, id="one byte more"),
        pytest.param({"data": {"a": "é" * 600 * 1024}}, False, id="bytes count"),
    ],
)
def test_config_map_holds_up_to_a_megabyte(data: dict[str, Any], is_fine: bool) -> None:
    _, messages = create(CONFIG_MAPS, data)
    assert messages == ([] if is_fine else ["[]: Too long: may not be more than 1048576 bytes"])


@given(
    st.dictionaries(st.text("abc.-_", min_size=1, max_size=8).filter(lambda key: not key.startswith("..")), st.text())
)
@settings(max_examples=50, deadline=None)
def test_plain_text_of_a_secret_survives_as_data(texts: dict[str, str]) -> None:
    """Each text is stored in base64 under its key."""
    secret = SECRETS.default({"metadata": {"name": "s"}, "stringData": texts})
    assert secret.get("data", {}) == {key: _base64(text) for key, text in texts.items()}
