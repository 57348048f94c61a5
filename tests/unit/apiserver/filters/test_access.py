"""The additional right that sessions in a pod need."""

from itertools import product

import pytest

from pykubelet.apiserver.filters.access import attributes_of, session_attributes
from pykubelet.apiserver.filters.requestinfo import request_info
from pykubelet.apiserver.request import ANONYMOUS, AuthorizationAttributes

PODS = "/api/v1/namespaces/ns/pods/web"
UPGRADE = {"Upgrade": "websocket"}


def asked_besides(method: str, path: str, headers: dict[str, str]) -> AuthorizationAttributes | None:
    found = request_info(method, path, {})
    assert found is not None
    return session_attributes(attributes_of(ANONYMOUS, found), headers)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        *product((f"{PODS}/exec", f"{PODS}/attach", f"{PODS}/portforward"), ({}, UPGRADE)),
        ("/api/v1/nodes/n1/proxy/exec/ns/web/c", UPGRADE),
    ],
)
def test_session_opened_with_get_needs_create_too(path: str, headers: dict[str, str]) -> None:
    """WebSockets start with a GET, and a user who may only read must not run programs that way."""
    besides = asked_besides("GET", path, headers)
    assert besides is not None
    assert besides.verb == "create"
    assert asked_besides("POST", path, headers) is None


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (f"{PODS}/log", UPGRADE),
        (f"{PODS}/proxy/ws", UPGRADE),
        (PODS, UPGRADE),
        ("/api/v1/nodes/n1/proxy/metrics", {}),
        ("/apis/example.com/v1/namespaces/ns/pods/web/exec", UPGRADE),
    ],
)
def test_other_requests_need_no_additional_right(path: str, headers: dict[str, str]) -> None:
    """Logs, node pages and what a pod serves itself need only the right to read."""
    assert asked_besides("GET", path, headers) is None
