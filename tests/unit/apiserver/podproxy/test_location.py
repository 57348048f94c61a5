"""Targets of proxied requests, and the requests that are refused."""

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.apiserver.podproxy.location import (
    ProxyTarget,
    log_target,
    node_target,
    pod_target,
    service_target,
    split_name,
    stream_target,
)

NODE: dict[str, Any] = {
    "metadata": {"name": "n1"},
    "status": {
        "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "192.0.2.7"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}},
    },
}
SERVICE: dict[str, Any] = {"spec": {"ports": [{"name": "web", "port": 80}]}}
ENDPOINTS: dict[str, Any] = {
    "subsets": [{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"name": "web", "port": 8080}]}]
}


def pod(*containers: str, node: str = "n1", ip: str = "192.0.2.8") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": "web"},
        "spec": {"nodeName": node, "containers": [{"name": name} for name in containers or ("c",)]},
        "status": {"podIP": ip},
    }


def test_log_of_the_only_container_comes_from_the_node() -> None:
    """The container need not be named; options that are off are left out."""
    query = [("follow", "true"), ("tailLines", "5"), ("timestamps", "false"), ("sinceTime", "2026-01-01T00:00:00Z")]
    assert log_target(pod(), NODE, query) == ProxyTarget(
        "192.0.2.7", 10255, "/containerLogs/ns/web/c?follow=true&tailLines=5&sinceTime=2026-01-01T00%3A00%3A00Z"
    )


@pytest.mark.parametrize(
    ("value", "is_on"), [("true", True), ("", True), ("yes", True), ("0", False), ("False", False), ("1", True)]
)
def test_switch_is_off_only_by_false_and_zero(value: str, *, is_on: bool) -> None:
    """Upstream reads query booleans this way; the first of several values counts."""
    target = log_target(pod(), NODE, [("follow", value), ("follow", "false" if is_on else "true")])
    assert target is not None
    assert target.path.endswith("?follow=true") is is_on


def test_log_of_a_pod_without_node_is_empty() -> None:
    """There is no kubelet to read it from yet, which is no error."""
    assert log_target(pod(node=""), None, []) is None


def test_streams_are_renamed_and_commands_kept_in_order() -> None:
    """The kubelet's parameters are input, output, error and tty."""
    query = [
        ("container", "b"),
        ("stdin", "true"),
        ("stdout", "1"),
        ("tty", "false"),
        ("command", "sh"),
        ("command", "-c"),
    ]
    target = stream_target(pod("a", "b"), NODE, "exec", query)
    assert target.path == "/exec/ns/web/b?input=1&output=1&command=sh&command=-c"
    assert stream_target(pod("a", "b"), NODE, "portforward", []).path == "/portForward/ns/web"


def test_node_pod_and_service_proxies_have_their_targets() -> None:
    """These are a node's kubelet port, a pod's given port or 80, and an endpoint of a service."""
    assert node_target(NODE, "n1", "/metrics", "a=b") == ProxyTarget("192.0.2.7", 10255, "/metrics?a=b")
    assert pod_target(pod(), "https:web:8443", "/", "") == ProxyTarget(
        "192.0.2.8", 8443, "/", scheme="https", is_node=False
    )
    assert pod_target(pod(), "web", "/x", "").port == 80
    assert service_target(SERVICE, ENDPOINTS, "web:80", "/", "") == ProxyTarget(
        "192.0.2.9", 8080, "/", scheme="http", is_node=False
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        pytest.param(
            lambda: log_target(pod("a", "b"), NODE, []),
            "a container name must be specified for pod web, choose one of: [a b]",
            id="which-container",
        ),
        pytest.param(
            lambda: log_target(pod(), NODE, [("container", "x")]), "container x is not valid for pod web", id="no-such"
        ),
        pytest.param(
            lambda: log_target(pod(), NODE, [("tailLines", "-1")]),
            'PodLogOptions "web" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
            id="negative-tail",
        ),
        pytest.param(
            lambda: log_target(pod(), NODE, [("limitBytes", "many")]),
            'strconv.ParseInt: parsing "many": invalid syntax',
            id="no-number",
        ),
        pytest.param(
            lambda: log_target(pod(), NODE, [("sinceSeconds", "5"), ("sinceTime", "2026-01-01T00:00:00Z")]),
            'PodLogOptions "web" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified',
            id="two-sinces",
        ),
        pytest.param(
            lambda: stream_target(pod(node=""), None, "exec", []), "pod web does not have a host assigned", id="no-host"
        ),
        pytest.param(
            lambda: stream_target(pod(node=""), None, "portforward", []),
            "pod web does not have a host assigned",
            id="forward-no-host",
        ),
        pytest.param(
            lambda: stream_target(pod("a", "b", node=""), None, "attach", []),
            "a container name must be specified for pod web, choose one of: [a b]",
            id="attach-to-which",
        ),
        pytest.param(
            lambda: stream_target(pod(), NODE, "exec", [("container", "x")]),
            "container x is not valid for pod web",
            id="exec-in-no-such",
        ),
        pytest.param(
            lambda: node_target(NODE, "n1:22", "/", ""), "only port 10255 of node n1 can be reached", id="ssh"
        ),
        pytest.param(lambda: pod_target(pod(ip="127.0.0.1"), "web", "/", ""), "address not allowed", id="loopback"),
        pytest.param(lambda: pod_target(pod(ip="169.254.1.1"), "web", "/", ""), "address not allowed", id="link-local"),
        pytest.param(
            lambda: pod_target(pod(ip="::ffff:127.0.0.1"), "web", "/", ""), "address not allowed", id="mapped"
        ),
        pytest.param(lambda: pod_target(pod(ip=""), "web", "/", ""), "address not allowed", id="no-address"),
        pytest.param(lambda: pod_target(pod(), "web:x", "/", ""), 'invalid port "x"', id="port-name"),
        pytest.param(lambda: pod_target(pod(), "ftp:web:1", "/", ""), 'invalid pod request "ftp:web:1"', id="scheme"),
        pytest.param(
            lambda: service_target(SERVICE, ENDPOINTS, "web:81", "/", ""),
            'no service port 81 found for service "web"',
            id="no-port",
        ),
        pytest.param(
            lambda: service_target(SERVICE, None, "web:web", "/", ""),
            'no endpoints available for service "web:web"',
            id="no-endpoints",
        ),
    ],
)
def test_request_without_a_valid_target_is_refused(ask: Any, message: str) -> None:
    """Each mistake has its own message."""
    with pytest.raises(ApiError) as refused:
        ask()
    assert refused.value.message == message


def test_unknown_node_is_not_found() -> None:
    """A pod may be bound to a node that does not exist."""
    with pytest.raises(NotFound, match='nodes "n1" not found'):
        log_target(pod(), None, [])


@given(st.text(":ahtps/\x00", max_size=12))
def test_any_name_splits_or_is_refused(text: str) -> None:
    """Any text gives a scheme and a name, or an error of the API."""
    try:
        scheme, name, _ = split_name(text, "pod")
    except ApiError:
        return
    assert name
    assert scheme in ("", "http", "https")


@given(st.text(max_size=20) | st.text("\r\n \t%?#/é", max_size=20))
def test_proxied_path_cannot_break_the_request_line(text: str) -> None:
    """A path with line breaks must not become a second request to a node that trusts this server."""
    path = node_target(NODE, "n1", f"/{text.encode('utf-8', 'replace').decode()}", "").path
    assert path.isascii()
    assert not set(path) & set("\r\n \t?#")
    assert unquote(path) == f"/{text.encode('utf-8', 'replace').decode()}"
