"""Bad input of every kind gets a Status with the right code, never a 500, and nothing is stored."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykubelet_process import ADMIN_TOKEN, ServerProcess

PODS = "/api/v1/namespaces/default/pods"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "env": [{"name": "A", "value": "1"}],
                "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "1"}},
                "livenessProbe": {"httpGet": {"port": 80}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
    },
}
PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
JSON = "application/json"


class Wire:
    """Sends requests exactly as given, over one connection that is reopened when the server closes it."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._connection: http.client.HTTPSConnection | None = None

    def ask(self, method: str, path: str, body: bytes = b"", kind: str = JSON, **headers: str) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", self._server.port, context=self._server.tls(), timeout=15
            )
        try:
            self._connection.putrequest(method, path, skip_accept_encoding=True)
            sent = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": kind, "Content-Length": str(len(body))}
            for name, value in (sent | headers).items():
                self._connection.putheader(name.replace("_", "-"), value)
            self._connection.endheaders(body)
            response = self._connection.getresponse()
            answer = response.read()
        except (http.client.HTTPException, OSError):
            self.close()
            raise
        if response.will_close:
            self.close()
        return response.status, answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def revision(self) -> str:
        return str(json.loads(self.ask("GET", "/api/v1/namespaces?limit=1")[1])["metadata"]["resourceVersion"])


@pytest.fixture(scope="module")
def wire(server: ServerProcess) -> Iterator[Wire]:
    client = Wire(server)
    assert client.ask("POST", PODS, json.dumps({**POD, "metadata": {"name": "there"}}).encode())[0] == 201
    yield client
    client.close()


def refused(wire: Wire, method: str, path: str, body: bytes = b"", kind: str = JSON) -> int:
    """Send a request; check that an error is a well-formed Status and that it stored nothing."""
    before = wire.revision()
    code, answer = wire.ask(method, path, body, kind)
    assert code < 500, (method, path, body[:500], answer)
    if code >= 400:
        assert wire.revision() == before
        if answer != b"404 page not found\n":
            status = json.loads(answer)
            assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", code)
            assert status["reason"]
            assert status["message"]
    return code


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(found for key, item in inner for found in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: replaced(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    return [replaced(item, path[1:], new) if key == path[0] else item for key, item in enumerate(value)]


quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(
    place=st.sampled_from(places(POD)), new=anything, method=st.sampled_from(["POST", "PUT", "PATCH"]), data=st.data()
)
def test_pod_with_any_value_at_any_place_is_stored_or_properly_refused(
    wire: Wire, place: tuple[Any, ...], new: Any, method: str, data: st.DataObject
) -> None:
    """Values of wrong types anywhere in the pod give 2xx or a 4xx Status."""
    body = json.dumps(replaced(POD, place, new)).encode()
    kind = JSON
    if method == "PATCH":
        kind = "application/" + data.draw(st.sampled_from(PATCHES))
    path = PODS if method == "POST" else f"{PODS}/there?fieldManager=f&dryRun=All"
    assert refused(wire, method, path + ("?dryRun=All" if method == "POST" else ""), body, kind) < 500


@quick
@given(body=st.binary(max_size=60), kind=st.sampled_from([JSON, "application/yaml", "text/plain", "", *PATCHES]))
def test_binary_bodies_are_refused(wire: Wire, body: bytes, kind: str) -> None:
    """Arbitrary bytes get a 4xx code for each method and content type."""
    for method, path in (("POST", PODS), ("PUT", f"{PODS}/there"), ("PATCH", f"{PODS}/there"), ("DELETE", f"{PODS}/x")):
        assert 400 <= refused(wire, method, path, body, kind) < 500


PARTS = (
    "api apis v1 apps namespaces default pods there status log exec scale .. . %2e%2e %2f %00 %ff % watch nodes proxy ~"
)
QUERIES = """limit=x limit=-1 continue=zz watch=1&timeoutSeconds=0 labelSelector=a%3D%3D%3Db fieldSelector=x%3Dy = &&
resourceVersion=abc resourceVersionMatch=Exact dryRun=Maybe fieldValidation=Loud pretty=%zz"""
path_parts = st.sampled_from([*PARTS.split(), "", "a" * 300])
query_parts = st.sampled_from(QUERIES.split())


@quick
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]),
    parts=st.lists(path_parts, max_size=8),
    query=st.lists(query_parts, max_size=2),
)
def test_strange_paths_are_answered_properly(wire: Wire, method: str, parts: list[str], query: list[str]) -> None:
    """Path traversal, unknown methods and invalid parameters never give an unexpected 500."""
    path = "/" + "/".join(parts) + "?" + "&".join(["dryRun=All&timeoutSeconds=1", *query])
    code, answer = wire.ask(method, path, b"{}")
    # A watch from a resourceVersion that is not a number gives 500, as recorded from kube-apiserver.
    assert code < 500 or b"resourceVersion" in answer, (method, path, answer)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"[" * 200_000, 400, id="deep-lists"),
        pytest.param(b'{"a":' * 50_000 + b"1" + b"}" * 50_000, 400, id="deep-maps"),
        pytest.param(b'{"apiVersion":"v1","kind":"Pod","x":"' + b"x" * (3 * 2**20) + b'"}', 413, id="huge"),
        pytest.param(b'{"apiVersion":"v1","kind":"Pod","spec":{"priority":1e400}}', 400, id="huge-number"),
        pytest.param(b'{"apiVersion":"v1","kind":"Pod"}{"kind":"Pod"}', 400, id="two-documents"),
        pytest.param(b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\xff"}}', 422, id="not-utf8"),
        pytest.param(b"", 400, id="empty"),
        pytest.param(b"null", 422, id="null"),
    ],
)
def test_malformed_bodies_have_the_right_code(wire: Wire, body: bytes, code: int) -> None:
    """The bodies break limits of depth and size, or the syntax."""
    assert refused(wire, "POST", PODS, body) == code


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param("a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{c}: &{c} [" + ",".join([f"*{p}"] * 9) + "]\n" for p, c in zip("abcdefg", "bcdefgh", strict=True)), id="aliases"),
        pytest.param("{" * 100_000, id="braces"),
        pytest.param("- " * 100_000, id="dashes"),
        pytest.param("a: !!python/object:os.system x", id="tag"),
    ],
)  # fmt: skip
def test_yaml_bombs_are_refused(wire: Wire, bomb: str) -> None:
    """Alias expansion, deep nesting and Python tags give a 4xx code."""
    assert refused(wire, "POST", PODS, bomb.encode(), "application/yaml") in (400, 413, 422)


def test_server_is_healthy_and_unchanged_after_bad_input(wire: Wire, server: ServerProcess) -> None:
    """It is ready, stores only its one pod, and has logged no traceback."""
    assert wire.ask("GET", "/readyz")[0] == 200
    names = [item["metadata"]["name"] for item in json.loads(wire.ask("GET", PODS)[1])["items"]]
    assert names == ["there"]
    assert [line for line in server.lines if "Traceback" in line] == []
