"""Objects of the core group sent to a real kube-apiserver, with its answers, replayed against the strategies alone.

A play keeps the objects of one transcript in a dict. Writes go through the same steps as in the server: defaults,
admission, preparation, validation. Reads and other parts of the server are left to the replay of whole transcripts.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.field_errors import FieldError, aggregate_text
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.apiserver.admission.pods import with_default_tolerations, with_old_priority, with_priority
from pykubelet.kinds.metadata import metadata_update_errors
from pykubelet.kinds.node import with_not_ready_taint
from pykubelet.kinds.registry import KINDS

_STRATEGIES = {kind.resource.group_resource: kind.strategy for kind in KINDS}

_TRANSCRIPTS = Path(__file__).parent / "transcripts"
_NAMES = (
    "pod-crud",
    "pod-defaults",
    "pod-invalid",
    "pod-update",
    "pod-status",
    "configmaps",
    "nodes",
    "events",
    "namespaces",
    "selectors",
)
_PATH = re.compile(r"/(?:api|apis/([\w.]+))/v1(?:/namespaces/([^/]+))?/(\w+)(?:/([^/?]+))?(?:/(\w+))?(?:\?.*)?")
_TIME = "2026-01-01T00:00:00Z"
_UID = "0f3c7d1e-94f4-4f0a-8d1a-6a52a1c1a001"
_MASKS = {
    "uid": "<uid>",
    "resourceVersion": "<rv>",
    **dict.fromkeys(("creationTimestamp", "lastTransitionTime", "startTime", "firstTimestamp"), "<time>"),
    **dict.fromkeys(("lastTimestamp", "lastHeartbeatTime", "eventTime", "renewTime", "startedAt"), "<time>"),
}


class _Play:
    """The objects of one transcript, changed by its steps."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, str], dict[str, Any]] = {}

    def answer(self, step: dict[str, Any]) -> Any:
        """Apply a write to the strategies, and return the answer as the server would show it."""
        match = _PATH.fullmatch(step["path"].replace("${ns}", "ns"))
        assert match is not None
        group, namespace, plural, name, subresource = match.groups(default="")
        resource = f"{plural}.{group}" if group else plural
        body = json.loads(re.sub(r"\$\{\w+\.metadata\.uid\}", _UID, json.dumps(step["body"]).replace("${ns}", "ns")))
        if step["method"] == "POST":
            return self._create(resource, namespace, body)
        old = self._stored[resource, name]
        if step["method"] == "PUT":
            patched = {**body, "metadata": {**_system(namespace), **body["metadata"]}}
        elif "strategic" in step["headers"]["Content-Type"]:
            patched = apply_strategic(old, body, (old["apiVersion"], old["kind"]))
        else:
            patched = apply_merge(old, body)
        return self._update(resource, patched, old, by_node=subresource == "status")

    def _create(self, resource: str, namespace: str, body: dict[str, Any]) -> Any:
        strategy = _STRATEGIES[resource]
        metadata = {**body.get("metadata", {}), **_system(namespace)}
        if "generateName" in metadata:
            metadata["name"] = f"{metadata['generateName']}x"
        new = strategy.default({**body, "metadata": metadata})
        if resource == "pods":
            new = with_priority(with_default_tolerations(new), None)
        new = strategy.prepare_create(with_not_ready_taint(new) if resource == "nodes" else new)
        return self._result(resource, new, strategy.validate_create(new))

    def _update(self, resource: str, patched: dict[str, Any], old: dict[str, Any], *, by_node: bool) -> Any:
        strategy = _STRATEGIES[resource]
        new = strategy.default(patched)
        if resource == "pods" and not by_node:
            new = with_old_priority(with_default_tolerations(new), old)
        new = (strategy.prepare_status if by_node else strategy.prepare_update)(new, old)
        errors = metadata_update_errors(new["metadata"], old["metadata"])
        errors += (strategy.validate_status if by_node else strategy.validate_update)(new, old)
        return self._result(resource, new, errors)

    def _result(self, resource: str, document: dict[str, Any], errors: list[FieldError]) -> Any:
        name = document["metadata"].get("name", "")
        if not errors:
            self._stored[resource, name] = document
            return document
        causes = [{"reason": str(error.type), "message": error.body, "field": error.field} for error in errors]
        group = "coordination.k8s.io" if "coordination" in resource else ""
        kind = f"{document['kind']}.{group}" if group else document["kind"]
        return {"message": f'{kind} "{name}" is invalid: {aggregate_text(errors)}', "causes": causes}


def _system(namespace: str) -> dict[str, str]:
    metadata = {"uid": _UID, "resourceVersion": "1", "creationTimestamp": _TIME}
    return {**metadata, "namespace": namespace} if namespace else metadata


def _masked(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if not isinstance(value, str):
        return value
    if value and key in _MASKS:
        return _MASKS[key]
    text = re.sub(r"\w{8}(-\w{4}){3}-\w{12}", "<uid>", value)
    return re.sub(r"\bns\b", "<ns>", re.sub(r"-x$", "-<rand>", text) if key in {"name", "message"} else text)


def _is_decided_by_strategies(step: dict[str, Any]) -> bool:
    # A write that cannot be decoded, finds no object or conflicts does not reach the strategies.
    is_write = step["method"] in {"POST", "PUT", "PATCH"} and "dryRun" not in step["path"]
    return is_write and step["expect"]["status"] in {200, 201, 422}


@cache
def _steps(transcript: str) -> list[dict[str, Any]]:
    steps = json.loads((_TRANSCRIPTS / f"{transcript}.json").read_bytes())["steps"]
    return [step for step in steps if _is_decided_by_strategies(step)]


@cache
def _answers(transcript: str) -> dict[str, Any]:
    play = _Play()
    return {step["id"]: play.answer(step) for step in _steps(transcript)}


def _writes() -> Iterator[Any]:
    for transcript in _NAMES:
        for step in _steps(transcript):
            yield pytest.param(transcript, step, id=f"{transcript} {step['id']}")


@pytest.mark.parametrize(("transcript", "step"), [*_writes()])
def test_strategies_answer_like_the_api_server_when_objects_are_written(transcript: str, step: dict[str, Any]) -> None:
    """The stored object, or all validation errors, equal the recorded answer."""
    want = step["expect"]["body"]
    if step["expect"]["status"] == 422:
        want = {"message": want["message"], "causes": want["details"]["causes"]}
    assert _masked(_answers(transcript)[step["id"]]) == want
