"""Client libraries against a real server: the official Python client, lightkube, and a kopf operator."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from pykubelet_process import ServerProcess

CLIENTS = Path(__file__).parent / "clients"


def run(script: str, server: ServerProcess) -> Any:
    command = [sys.executable, str(CLIENTS / script), str(server.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def until(look: Callable[[], bool]) -> None:
    """Repeat a check until it holds; each check runs kubectl, which takes its time."""
    for _ in range(100):
        if look():
            return
    pytest.fail("it did not happen in time")


def test_official_client_lives_through_a_whole_scenario(server: ServerProcess) -> None:
    """It creates, watches, patches, deletes and scales, and uses a custom kind."""
    assert run("official_client.py", server) == {
        "phase": "Pending",
        "events": ["ADDED", "MODIFIED", "MODIFIED", "DELETED"],  # setting the deletion timestamp is an event of its own
        "scaled": 4,
        "missing": 404,
        "size": 3,
        "listed": 1,
    }


def test_lightkube_lives_through_a_whole_scenario(server: ServerProcess) -> None:
    """It creates, applies, watches and deletes; the custom kind comes from the test above."""
    assert run("lightkube_client.py", server) == {
        "events": ["ADDED", "MODIFIED", "MODIFIED", "DELETED"],  # setting the deletion timestamp is an event of its own
        "data": {"a": "1", "b": "2"},
        "missing": 404,
        "size": 9,
        "listed": 1,
    }


def test_kopf_operator_follows_custom_resources(server: ServerProcess, tmp_path: Path) -> None:
    """It handles creation, update and deletion of a Tool; its finalizer holds the deletion until it has cleaned up."""
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    command = [str(Path(sys.executable).with_name("kopf")), "run", str(CLIENTS / "kopf_operator.py"), "-n", "operated"]
    kubectl = Kubectl(server.kubeconfig, "operated", tmp_path)
    kubectl("create", "namespace", "operated")
    tool = {"apiVersion": "official.example.com/v1", "kind": "Tool", "metadata": {"name": "saw"}, "spec": {"size": 1}}
    operator = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        kubectl("create", "-f", "-", text=json.dumps(tool))

        def size() -> str:
            return kubectl("get", "configmap", "tool-saw", "-o", "jsonpath={.data.size}", "--ignore-not-found")

        until(lambda: size() == "1")
        owner = kubectl.json("get", "configmap", "tool-saw")["metadata"]["ownerReferences"][0]
        assert owner["uid"] == kubectl.json("get", "tool", "saw")["metadata"]["uid"]
        kubectl("patch", "tool", "saw", "--type=merge", "-p", '{"spec":{"size":2}}')
        until(lambda: size() == "2")
        kubectl("delete", "tool", "saw", "--timeout=20s")
        until(lambda: size() == "")
    finally:
        operator.terminate()
        errors = operator.communicate(timeout=20)[1].decode()
    assert "Traceback" not in errors
