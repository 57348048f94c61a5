"""Pods sent to a real kube-apiserver, with its answers: defaults and validation errors.

Every create of a pod in the transcripts that reached validation is played against `default_pod` and
`validate_pod_create`. What the server alone adds (uid, times, status) and what its admission plugins add (priority,
tolerations) is left out of the comparison.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.field_errors import aggregate_text
from pykubelet.kinds.pod.defaults import default_pod
from pykubelet.kinds.pod.validation import validate_pod_create

_TRANSCRIPTS = Path(__file__).parent / "transcripts"
_POD_COLLECTION = "/api/v1/namespaces/${ns}/pods"
_ADMISSION_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _creates(status: int) -> Iterator[Any]:
    for path in sorted(_TRANSCRIPTS.glob("pod-*.json")):
        for step in json.loads(path.read_bytes())["steps"]:
            is_create = step["method"] == "POST" and step["path"].partition("?")[0] == _POD_COLLECTION
            if is_create and step["expect"]["status"] == status:
                yield pytest.param(step["body"], step["expect"]["body"], id=f"{path.stem} {step['id']}")


def _as_stored(request: dict[str, Any]) -> dict[str, Any]:
    """The pod that validation gets: defaulted, in the namespace of the request, with a generated name."""
    pod = default_pod(request)
    metadata = {"namespace": "default", **pod["metadata"]}
    if "generateName" in metadata:
        metadata["name"] = f"{metadata['generateName']}x"
    return {**pod, "metadata": metadata}


def _user_part(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod without the fields that the server and admission added."""
    metadata = {key: pod["metadata"].get(key) for key in ("labels", "annotations", "generateName")}
    spec = {key: value for key, value in pod["spec"].items() if key not in {"priority", "preemptionPolicy"}}
    own = [each for each in spec.pop("tolerations", []) if each.get("key") not in _ADMISSION_KEYS]
    return {"metadata": metadata, "spec": {**spec, "tolerations": own}}


@pytest.mark.parametrize(("request_body", "answer"), [*_creates(422)])
def test_validation_answers_like_the_api_server_when_a_pod_is_invalid(
    request_body: dict[str, Any], answer: dict[str, Any]
) -> None:
    errors = validate_pod_create(_as_stored(request_body))
    causes = [{"reason": str(error.type), "message": error.body, "field": error.field} for error in errors]
    assert causes == answer["details"]["causes"]
    name = request_body["metadata"].get("name", "")
    assert f'Pod "{name}" is invalid: {aggregate_text(errors)}' == answer["message"]


@pytest.mark.parametrize(("request_body", "answer"), [*_creates(201)])
def test_defaults_equal_those_of_the_api_server_when_a_pod_is_valid(
    request_body: dict[str, Any], answer: dict[str, Any]
) -> None:
    pod = _as_stored(request_body)
    assert validate_pod_create(pod) == []
    known = {key: value for key, value in pod["spec"].items() if key != "foo"}  # the server drops unknown fields
    assert _user_part({**pod, "spec": known}) == _user_part(answer)
