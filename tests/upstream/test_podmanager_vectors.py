"""The pod manager compared with every answer of the Go code."""

import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import pod_full_name
from pykubelet.kubelet.pod.pod_manager import PodManager

VECTORS = Path(__file__).parent / "vectors" / "podmanager.json"
CASES = json.loads(VECTORS.read_text())["cases"]


def uid_of(pod: Pod | None) -> str | None:
    return None if pod is None else pod.metadata.uid


def apply(manager: PodManager, step: dict[str, Any]) -> tuple[Pod, ...]:
    """Apply one step, and return its pods."""
    given = step.get("pods", ()) if step["op"] == "set" else (step["pod"],)
    pods = tuple(Pod(metadata=ObjectMeta(**fields)) for fields in given)
    match step["op"]:
        case "set":
            manager.set_pods(pods)
        case "add":
            manager.add_pod(*pods)
        case "update":
            manager.update_pod(*pods)
        case "remove":
            manager.delete_pod(*pods)
        case other:
            pytest.fail(f"unknown op {other}")
    return pods


def answers(manager: PodManager, met: dict[str, Pod], names: set[str]) -> dict[str, Any]:
    """Everything that the manager returns, in the form of the vectors."""
    pods, mirrors, orphans = manager.pods_and_mirror_pods()
    assert sorted(map(str, map(uid_of, manager.pods()))) == sorted(map(str, map(uid_of, pods)))
    assert manager.orphaned_mirror_pod_names() == orphans
    pod_to_mirror, mirror_to_pod = manager.uid_translations()
    return {
        "pods": sorted(pod.metadata.uid for pod in pods),
        "mirror_pods": sorted(pod.metadata.uid for pod in mirrors),
        "orphaned_mirror_names": sorted(orphans),
        "pod_to_mirror": dict(pod_to_mirror),
        "mirror_to_pod": dict(mirror_to_pod),
        "translate": {uid: manager.translate_pod_uid(uid) for uid in met},
        "by_full_name": {name: uid_of(manager.pod_by_full_name(name)) for name in names},
        "mirror_by_pod": {uid: uid_of(manager.mirror_pod_by_pod(pod)) for uid, pod in met.items()},
        "pod_by_mirror": {uid: uid_of(manager.pod_by_mirror_pod(pod)) for uid, pod in met.items()},
        "static_to_mirror": {uid: uid_of(mirror) for uid, mirror in manager.static_to_mirror().items()},
    }


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{i} {case['name']}") for i, case in enumerate(CASES)])
def test_manager_answers_as_the_go_code(case: dict[str, Any]) -> None:
    manager, met, names = PodManager(), {}, set[str]()
    for step in case["ops"]:
        for pod in apply(manager, step):
            met[pod.metadata.uid] = pod
            names.add(pod_full_name(pod))
        expected = dict(step["after"])
        got = answers(manager, met, names)
        for uid, acceptable in expected.pop("pod_to_mirror_any_of", {}).items():
            assert got["pod_to_mirror"].pop(uid) in acceptable
        assert got == expected
