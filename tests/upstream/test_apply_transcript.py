"""Replays transcripts/apply.json without a server: objects, managed fields and conflicts of kube-apiserver 1.34.11."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from pykubelet.api.errors import Conflict
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.apiserver.fieldmanager.fieldmanager import apply, record
from pykubelet.kinds.pod.defaults import default_pod

STEPS = json.loads((Path(__file__).parent / "transcripts/apply.json").read_text())["steps"]
DEFINITIONS = {"configmaps": "core.v1.ConfigMap", "pods": "core.v1.Pod"}
# The server checks that an apply names its field manager before the code under test runs.
DECIDED = [step for step in STEPS if step["id"] != "nomanager"]
NOW = "2026-01-02T03:04:05Z"
# Fields that the server adds after it has set managedFields: identity, and a pod's defaults from admission.
ADDED_METADATA = {"namespace", "uid", "resourceVersion", "creationTimestamp", "generation"}
ADDED_SPEC = {"tolerations", "priority", "preemptionPolicy"}

Objects = dict[str, dict[str, Any]]


def play(step: dict[str, Any], objects: Objects) -> dict[str, Any]:
    url = urlsplit(step["path"])
    plural, name = url.path.split("/")[-2:]
    query = dict(parse_qsl(url.query))
    live = objects.get(name)
    if step["method"] == "GET":
        assert live is not None
        return live
    told: dict[str, Any] = {"definition": DEFINITIONS[plural], "api_version": "v1", "now": NOW}
    if "apply" in step["headers"]["Content-Type"]:
        told |= {"manager": query["fieldManager"], "force": query.get("force") == "true"}
        made = apply(live, step["body"], **told)
    else:
        patched = apply_merge(live, step["body"])
        made = record(patched, live, manager=query["fieldManager"], **told)
    objects[name] = default_pod(made) if plural == "pods" else made
    return objects[name]


def comparable(document: dict[str, Any], *, with_owners: bool) -> dict[str, Any]:
    kept = ADDED_METADATA if with_owners else {*ADDED_METADATA, "managedFields"}
    metadata = {name: value for name, value in document["metadata"].items() if name not in kept}
    result = {**document, "metadata": metadata}
    result.pop("status", None)
    if "spec" in document:
        result["spec"] = {name: value for name, value in document["spec"].items() if name not in ADDED_SPEC}
    masked: dict[str, Any] = json.loads(re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>", json.dumps(result)))
    return masked


@pytest.mark.parametrize("last", range(len(DECIDED)), ids=[f"apply {step['id']}" for step in DECIDED])
def test_apply_decides_as_recorded(last: int) -> None:
    objects: Objects = {}
    for step in DECIDED[:last]:
        if step["expect"]["status"] < 300:
            play(step, objects)
    step = DECIDED[last]
    wanted = step["expect"]["body"]
    if step["expect"]["status"] == 409:
        with pytest.raises(Conflict) as refused:
            play(step, objects)
        assert refused.value.to_status() == wanted
        return
    with_owners = step.get("managedFields", False)
    made = comparable(play(step, objects), with_owners=with_owners)
    assert made == comparable(wanted, with_owners=with_owners)
    if with_owners:
        # Go also fixes the order of the entries, so it must be equal.
        assert json.dumps(made["metadata"]["managedFields"]) == json.dumps(wanted["metadata"]["managedFields"])
