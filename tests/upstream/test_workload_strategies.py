"""Workloads sent to a real kube-apiserver, with its answers, replayed against the strategies alone.

A play keeps the objects of one transcript in a dict. Creates and patches go through the same steps as in the server:
defaults, preparation, validation. Reads and other parts of the server are left to the replay of whole transcripts.
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
from pykubelet.kinds.kind import Strategy
from pykubelet.kinds.registry import KINDS

_TRANSCRIPTS = Path(__file__).parent / "transcripts"
_STRATEGIES = {kind.resource.group_resource: kind.strategy for kind in KINDS}
_PATH = re.compile(r"/apis/(\w+)/v1/namespaces/\$\{ns\}/(\w+)(?:/(\w+))?(?:/(\w+))?")
_UID = "0f3c7d1e-94f4-4f0a-8d1a-6a52a1c1a001"
_SYSTEM = {"namespace": "default", "uid": _UID, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
_MASKED = {"namespace": "<ns>", "uid": "<uid>", "resourceVersion": "<rv>", "creationTimestamp": "<time>"}


class _Play:
    """The objects of one transcript, changed by its steps."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, str], dict[str, Any]] = {}

    def answer(self, step: dict[str, Any]) -> Any:
        """Apply a write to the strategies, and return the answer as the server would show it."""
        match = _PATH.fullmatch(step["path"])
        assert match is not None
        group, plural, name, subresource = match.groups()
        strategy = _STRATEGIES[f"{plural}.{group}"]
        if step["method"] == "POST":
            return self._create(strategy, plural, step["body"])
        patch = {"spec": step["body"]["spec"]} if subresource == "scale" else step["body"]
        return self._patch(strategy, (plural, name), patch, step, by_controller=subresource == "status")

    def _create(self, strategy: Strategy, plural: str, body: dict[str, Any]) -> Any:
        read = strategy.default(body)
        new = strategy.prepare_create({**read, "metadata": {**read["metadata"], **_SYSTEM}})
        return self._result(plural, new, strategy.validate_create(new))

    def _patch(
        self, strategy: Strategy, key: tuple[str, str], patch: Any, step: dict[str, Any], *, by_controller: bool
    ) -> Any:
        old = self._stored[key]
        is_strategic = "strategic" in step.get("headers", {}).get("Content-Type", "")
        kind = (old["apiVersion"], old["kind"])
        patched = strategy.default(apply_strategic(old, patch, kind) if is_strategic else apply_merge(old, patch))
        if by_controller:
            new = strategy.prepare_status(patched, old)
            return self._result(key[0], new, strategy.validate_status(new, old))
        new = strategy.prepare_update(patched, old)
        return self._result(key[0], new, strategy.validate_update(new, old))

    def _result(self, plural: str, document: dict[str, Any], errors: list[FieldError]) -> Any:
        name = document["metadata"]["name"]
        if not errors:
            self._stored[plural, name] = document
            return {**document, "metadata": {**document["metadata"], **_MASKED}}
        causes = [{"reason": str(error.type), "message": error.body, "field": error.field} for error in errors]
        group = document["apiVersion"].partition("/")[0]
        return {
            "message": f'{document["kind"]}.{group} "{name}" is invalid: {aggregate_text(errors)}',
            "causes": causes,
        }


@cache
def _answers(transcript: str) -> dict[str, Any]:
    play = _Play()
    steps = json.loads((_TRANSCRIPTS / f"{transcript}.json").read_bytes())["steps"]
    return {step["id"]: play.answer(step) for step in steps if step["method"] != "GET"}


def _writes() -> Iterator[Any]:
    for transcript in ("workloads", "strategic-lists"):
        for step in json.loads((_TRANSCRIPTS / f"{transcript}.json").read_bytes())["steps"]:
            if step["method"] != "GET" and not step["path"].endswith("/scale"):
                yield pytest.param(transcript, step, id=f"{transcript} {step['id']}")


@pytest.mark.parametrize(("transcript", "step"), [*_writes()])
def test_strategies_answer_like_the_api_server_when_workloads_are_written(
    transcript: str, step: dict[str, Any]
) -> None:
    """The stored object, or all validation errors, equal the recorded answer."""
    want = step["expect"]["body"]
    if step["expect"]["status"] == 422:
        want = {"message": want["message"], "causes": want["details"]["causes"]}
    got = json.loads(json.dumps(_answers(transcript)[step["id"]]).replace(_UID, "<uid>"))
    assert got == want
