"""Control characters in objects, events and errors never reach the terminal of the user who runs a command."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_lab import Pykubelet
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
EVIL = "\x1b]0;title\x07\x1b[31mred\x07 \x9b31mred\x08\x7f \u202edesrever\r"
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_INVOLVED = {"kind": "Pod", "name": "web", "namespace": "default"}
OBJECTS = (
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": {"evil": EVIL}},
        # It is never scheduled, so that its message stays.
        "spec": {"containers": [{"name": "main", "image": "x", "command": [EVIL]}], "nodeSelector": {"no": "node"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1"},
        "involvedObject": _INVOLVED,
        "type": "Warning",
        "reason": EVIL,
        "message": EVIL,
        "source": {"component": EVIL},
    },
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": EVIL}, "rules": []},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": EVIL}},
)


@pytest.fixture(scope="module")
def pykubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pykubelet]:
    process = UpProcess(tmp_path_factory.mktemp("escapes"), runtime="sim").start()
    try:
        run = Pykubelet(process.kubeconfig)
        for one in OBJECTS:
            done = run.run("apply", "-f", "-", text=json.dumps(one))
            assert_no_controls(done.stdout + done.stderr)
        yield run
    finally:
        process.kill()


def assert_no_controls(text: str) -> None:
    assert [found.group() for found in _RAW.finditer(text)] == []


@pytest.mark.parametrize(
    "words",
    [
        "get events",
        "get events -A -o wide --show-labels",
        "get roles -o name",
        "get roles,events",
        "get pod web -o json",
        "get pod web -o yaml",
        "describe pod web",
        "describe cm words",
        "describe roles",
        "why web",
        "why web -o json",
        "delete roles --all --dry-run=server",
    ],
)
def test_output_has_no_raw_control_characters(pykubelet: Pykubelet, words: str) -> None:
    """What the object contains is still there, in a visible form."""
    done = pykubelet.run(*words.split())
    # YAML keeps its characters as kubectl prints them, but for those that control a terminal.
    assert_no_controls((done.stdout + done.stderr).replace("\u202e", "" if "yaml" in words else "\u202e"))
    if not words.startswith("why"):
        assert re.search(r"(\^\[|\\u001b|\\e)\[31mred", done.stdout)


def test_json_keeps_its_value(pykubelet: Pykubelet) -> None:
    """The escapes are JSON's own."""
    assert json.loads(pykubelet("get", "cm", "words", "-o", "json"))["data"]["a"] == EVIL


@pytest.mark.parametrize("words", ["get pod", "describe pod", "delete pod", "logs", "exec", "why", "get"])
def test_errors_have_no_raw_control_characters(pykubelet: Pykubelet, words: str) -> None:
    """The server repeats the name that it was asked for."""
    name = EVIL.replace(" ", "")
    more = ("--", "true") if words == "exec" else ()
    assert_no_controls(pykubelet.fails(*words.split(), name, *more))


def test_problems_of_manifests_have_no_raw_control_characters(pykubelet: Pykubelet, tmp_path: Path) -> None:
    """A manifest may come from somebody else."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": EVIL}, "spec": {EVIL: 1, "containers": []}}
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(pod))
    for words in ("apply -f", "check", "delete -f"):
        done = pykubelet.run(*words.split(), str(path), code=1)
        assert_no_controls(done.stdout + done.stderr)
