"""AdmissionReview: which answers are valid, and the errors of denials."""

import base64
from typing import Any

import pytest

from pykubelet.apiserver.admission.plugin.webhook.review import (
    ReviewError,
    WebhookDenial,
    admission_review,
    read_response,
    review_version,
)

KIND = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
INVALID = "received invalid webhook response: "


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("answer", "mutating", "problem"),
    [
        ("text", False, f"{INVALID}couldn't get version/kind; the answer is not an object"),
        (KIND, False, f"{INVALID}webhook response was absent"),
        ({**KIND, "response": {}}, False, f'{INVALID}expected response.uid="u", got ""'),
        ({**KIND, "response": {"uid": "v"}}, False, f'{INVALID}expected response.uid="u", got "v"'),
        (
            {"response": {"uid": "u"}},
            False,
            f"{INVALID}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got , Kind=",
        ),
        (
            {**KIND, "response": {"uid": "u", "patch": "YQ=="}},
            False,
            f"{INVALID}validating webhook may not return response.patch",
        ),
        (
            {**KIND, "response": {"uid": "u", "patchType": ""}},
            False,
            f"{INVALID}validating webhook may not return response.patchType",
        ),
        (
            {**KIND, "response": {"uid": "u", "patch": "YQ=="}},
            True,
            f"{INVALID}webhook returned response.patch but not response.patchType",
        ),
        (
            {**KIND, "response": {"uid": "u", "patchType": "JSONPatch"}},
            True,
            f"{INVALID}webhook returned response.patchType but not response.patch",
        ),
        (
            {**KIND, "response": {"uid": "u", "patch": "YQ==", "patchType": ""}},
            True,
            f'{INVALID}webhook returned invalid response.patchType of ""',
        ),
        ({**KIND, "response": {"uid": "u", "warnings": [1]}}, False, f"{INVALID}text.0 has the wrong type"),
        ({**KIND, "response": {"uid": "u", "status": "x"}}, False, f"{INVALID}response.status has the wrong type"),
        ({**KIND, "response": []}, False, f"{INVALID}response has the wrong type"),
    ],
)
def test_an_invalid_answer_says_why(answer: Any, mutating: bool, problem: str) -> None:
    with pytest.raises(ReviewError) as caught:
        read_response(answer, "v1", "u", mutating=mutating)

    assert str(caught.value) == problem


@pytest.mark.parametrize("patch", ["!", encoded("{"), encoded("")[:-1] + "%"])
def test_an_undecodable_patch_is_an_error(patch: str) -> None:
    answer = {**KIND, "response": {"uid": "u", "allowed": True, "patch": patch, "patchType": "JSONPatch"}}

    with pytest.raises(ReviewError, match="received undecodable patch in webhook response"):
        read_response(answer, "v1", "u", mutating=True)


def test_a_patch_is_decoded_and_an_empty_one_is_none() -> None:
    response = {"uid": "u", "allowed": True, "patchType": "JSONPatch"}
    operations = [{"op": "remove", "path": "/a"}]

    full = {**KIND, "response": {**response, "patch": encoded('[{"op":"remove","path":"/a"}]')}}
    assert read_response(full, "v1", "u", mutating=True).patch == operations
    empty = {**KIND, "response": {**response, "patch": encoded("[]")}}
    assert read_response(empty, "v1", "u", mutating=True).patch is None


def test_the_first_known_version_is_sent_and_the_old_one_is_read_leniently() -> None:
    assert review_version(["v2", "v1beta1", "v1"]) == "v1beta1"
    with pytest.raises(ReviewError, match="webhook does not accept known AdmissionReview versions"):
        review_version(["v2"])
    review = admission_review("v1beta1", "u", {"operation": "CREATE"}, {"a": 1}, None)
    assert review["apiVersion"] == "admission.k8s.io/v1beta1"
    assert review["request"] == {"uid": "u", "operation": "CREATE", "object": {"a": 1}, "oldObject": None}
    answer = {"response": {"allowed": True, "patch": encoded('[{"op":"remove","path":"/a"}]')}}
    assert read_response(answer, "v1beta1", "u", mutating=True).patch == [{"op": "remove", "path": "/a"}]


@pytest.mark.parametrize(
    ("result", "message", "code", "reason"),
    [
        ({}, "without explanation", 400, ""),
        ({"message": "no", "code": 200}, ": no", 400, ""),
        ({"reason": "Bad"}, ": Bad", 400, "Bad"),
        ({"message": "no", "reason": "Bad", "code": 422}, ": no", 422, "Bad"),
        ({"message": "no", "code": 100_000}, ": no", 400, ""),
    ],
)
def test_a_denial_has_the_webhooks_message_code_and_reason(
    result: dict[str, Any], message: str, code: int, reason: str
) -> None:
    status = WebhookDenial("a.b.c", result).to_status()

    gap = "" if message.startswith(":") else " "
    assert status["message"] == f'admission webhook "a.b.c" denied the request{gap}{message}'
    assert (status["code"], status.get("reason", "")) == (code, reason)
