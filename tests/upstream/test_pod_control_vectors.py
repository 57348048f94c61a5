"""The controllers' helpers give the results of the Go code for all cases of vectors/pod-control.json."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api import serializer
from pykubelet.api.errors import ApiError, Conflict, Forbidden, InternalError, Invalid, NotFound
from pykubelet.api.generated.apps import ReplicaSet
from pykubelet.api.generated.core import Pod, PodStatus, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta, OwnerReference
from pykubelet.api.labels import selector_from_object
from pykubelet.api.times import parse_time
from pykubelet.controllers.framework import active_pods
from pykubelet.controllers.framework.expectations import UidTrackingExpectations
from pykubelet.controllers.framework.ownership import PodControllerRefManager
from pykubelet.controllers.framework.pod_control import pod_from_template, slow_start_batch, validate_controller_ref
from pykubelet.testing.fake_pod_control import FakePodControl

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors/pod-control.json").read_text())["cases"]


def cases(op: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [c for c in CASES if c["op"] == op], ids=lambda c: f"{op}-{c['index']}")


def optional(document: Any, kind: Any) -> Any:
    return None if document is None else serializer.from_document(document, kind)


@cases("getPodFromTemplate")
def test_pod_is_made_from_its_template(case: dict[str, Any]) -> None:
    """Labels, annotations, finalizers and spec come from the template, and nothing else."""
    template = serializer.from_document(case["template"], PodTemplateSpec)
    pod = pod_from_template(template, case["parent_name"], optional(case["controller_ref"], OwnerReference))
    assert pod == serializer.from_document(case["pod"], Pod)


@cases("validateControllerRef")
def test_controller_ref_is_validated(case: dict[str, Any]) -> None:
    """The first failure is reported with upstream's text."""
    reference = optional(case["controller_ref"], OwnerReference)
    if case["error"] is None:
        validate_controller_ref(reference)
    else:
        with pytest.raises(ValueError, match=f"^{case['error']}$"):
            validate_controller_ref(reference)


@cases("sortActivePods")
def test_pods_are_ordered_for_deletion(case: dict[str, Any]) -> None:
    """Both orders are checked, and every pair of the ranked one."""
    pods = [serializer.from_document(pod, Pod) for pod in case["pods"]]
    assert [pod.metadata.name for pod in active_pods.deletion_order(pods)] == case["active_pods_order"]
    if "ranks" not in case:
        return
    now = parse_time(case["now"]) if case["now"] else None
    ranked = active_pods.ranked_deletion_order(pods, case["ranks"], now)
    assert [pod.metadata.name for pod in ranked] == case["ranked_order"]
    pairs = list(zip(pods, case["ranks"], strict=True))
    less = [
        [a[0].metadata.name, b[0].metadata.name]
        for a in pairs
        for b in pairs
        if active_pods.compare_ranked(a, b, now) < 0
    ]
    assert sorted(less) == sorted(named(case, json.loads(case["ranked_less_pairs"])))


def named(case: dict[str, Any], pairs: list[list[Any]]) -> list[list[str]]:
    names = [pod["metadata"]["name"] for pod in case["pods"]]
    return [[names[one] if isinstance(one, int) else one for one in pair] for pair in pairs]


@cases("slowStartBatch")
async def test_slow_start_stops_at_the_first_bad_batch(case: dict[str, Any]) -> None:
    """Calls and successes are as many as upstream's."""
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        number = calls
        await asyncio.sleep(0)
        if case["calls_fail_from"] and number >= case["calls_fail_from"]:
            raise RuntimeError("limit")

    successes, error = await slow_start_batch(case["count"], call, first_batch=case["initial_batch"])
    assert (successes, calls, error is not None) == (case["successes"], case["calls"], case["failed"])


def take(expectations: UidTrackingExpectations, step: dict[str, Any], now: float) -> None:
    key, delta = step["key"], {"add": step.get("add", 0), "delete": step.get("del", 0)}
    match step["do"]:
        case "expect_creations":
            expectations.expect_creations(key, step["n"], now_seconds=now)
        case "expect_deletions":
            expectations.expect_deletions(key, step["keys"], now_seconds=now)
        case "creation_observed":
            expectations.creation_observed(key)
        case "deletion_observed":
            expectations.deletion_observed(key, step["deleted"])
        case "raise":
            expectations.raise_(key, **delta)
        case "lower":
            expectations.lower(key, **delta)
        case "delete_expectations":
            expectations.forget(key)


def seen(expectations: UidTrackingExpectations, key: str, now: float) -> dict[str, Any]:
    found = expectations.get(key)
    satisfied = {"satisfied": expectations.satisfied(key, now_seconds=now)}
    if found is None:
        return satisfied
    return {**satisfied, "add": found.add, "del": found.delete, "awaited": sorted(expectations.awaited(key))}


@cases("expectations")
def test_expectations_count_as_upstream(case: dict[str, Any]) -> None:
    """After every step the expectations of both controllers are equal to upstream's."""
    expectations, now = UidTrackingExpectations(), 0.0
    for step in case["steps"]:
        now += step.get("seconds", 0)
        take(expectations, step, now)
        for key in ("ns/a", "ns/b"):
            # Before a controller expects deletions it has no set of awaited pods, which equals an empty one.
            nobody: dict[str, Any] = {"awaited": []} if "add" in step[key] else {}
            assert seen(expectations, key, now) == {**nobody, **step[key]}


@cases("filterActivePods")
def test_active_and_terminating_pods_are_distinguished(case: dict[str, Any]) -> None:
    """Finished pods are neither active nor terminating."""
    pods = [
        Pod(
            metadata=ObjectMeta(name=p["name"], deletion_timestamp="2024-01-01T00:00:00Z" if p["deleted"] else None),
            status=PodStatus(phase=p["phase"]),
        )
        for p in case["pods"]
    ]
    assert [pod.metadata.name for pod in pods if active_pods.is_pod_active(pod)] == case["active"]
    assert [pod.metadata.name for pod in pods if active_pods.is_pod_terminating(pod)] == case["terminating"]


ANSWERS: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "Conflict": Conflict,
    "Invalid": Invalid,
    "Forbidden": Forbidden,
    "InternalError": InternalError,
}


class Patcher(FakePodControl):
    """Records patches and answers them as the case defines."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__()
        self.answers, self.requests = answers, list[dict[str, Any]]()

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:
        released = "$patch" in patch["metadata"]["ownerReferences"][0]
        self.requests.append({"pod": name, "kind": "release" if released else "adopt", "patch": patch})
        if answer := self.answers.get(name):
            raise ANSWERS[answer](f"{answer} {name}")


@cases("claimPods")
async def test_pods_are_claimed(case: dict[str, Any]) -> None:
    """Claimed pods, the order of patches and errors are upstream's."""
    given, asked = case["controller"], 0
    deleted = "2024-01-01T00:00:00Z" if given["deleted"] else None
    meta = ObjectMeta(name=given["name"], namespace=given["namespace"], uid=given["uid"], deletion_timestamp=deleted)
    owner = ReplicaSet(api_version=given["apiVersion"], kind=given["kind"], metadata=meta)

    async def can_adopt() -> None:
        nonlocal asked
        asked += 1
        if case["can_adopt_error"]:
            raise RuntimeError(case["can_adopt_error"])

    patcher = Patcher(case["patch_errors"])
    selector = selector_from_object(optional(case["selector"], LabelSelector))
    ownership = PodControllerRefManager(
        pod_control=patcher, owner=owner, selector=selector, can_adopt=can_adopt, finalizers=case["finalizers"]
    )
    claimed = await ownership.claim_pods([serializer.from_document(pod, Pod) for pod in case["pods"]])

    assert [pod.metadata.name for pod in claimed.pods] == case["claimed"]
    assert patcher.requests == case["patches"]
    assert asked == case["can_adopt_calls"]
    assert (claimed.error is not None) == (case["error"] is not None)
    if claimed.error and not case["patch_errors"]:
        assert str(claimed.error) == case["error"]
