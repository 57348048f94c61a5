"""Cases 1.10-01 to 1.10-22: the pod manager and full names."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    CONFIG_SOURCE,
    PodUid,
    full_name,
    parse_full_name,
    pod_full_name,
)
from pykubelet.kubelet.pod.pod_manager import PodManager, is_mirror_pod_of
from pykubelet.testing.build import pod

NAME = "mirror-static-pod-name"
M = pod(NAME, uid="mirror-pod-uid", annotations={CONFIG_SOURCE: "api", CONFIG_MIRROR: "mirror", CONFIG_HASH: "mirror"})
S = pod(NAME, uid="static-pod-uid", annotations={CONFIG_SOURCE: "file"})
N = pod("normal-pod-name", uid="normal-pod-uid")
S_AGAIN = pod(NAME, uid="static-pod-uid-2", annotations={CONFIG_SOURCE: "file"})
NO_UID = replace(M, metadata=replace(M.metadata, uid=""))
ALL = (M, S, N)
FULL_NAME = f"{NAME}_default"

Step = Callable[[PodManager], None]


def added(*pods: Pod) -> Step:
    def step(manager: PodManager) -> None:
        for each in pods:
            manager.add_pod(each)

    return step


def given(*pods: Pod) -> Step:
    return lambda manager: manager.set_pods(pods)


def removed(*pods: Pod) -> Step:
    def step(manager: PodManager) -> None:
        for each in pods:
            manager.delete_pod(each)

    return step


def everything(manager: PodManager) -> tuple[set[str], set[str], set[str]]:
    pods, mirrors, orphans = manager.pods_and_mirror_pods()
    return {each.metadata.uid for each in pods}, {each.metadata.uid for each in mirrors}, set(orphans)


def where(each: Pod) -> Callable[[PodManager], tuple[Pod | None, ...]]:
    """Find a pod by UID, by full name, as a mirror by UID and as the mirror of the pod."""

    def ask(manager: PodManager) -> tuple[Pod | None, ...]:
        mirrors = {mirror.metadata.uid: mirror for mirror in manager.pods_and_mirror_pods().mirror_pods}
        return (
            manager.pod_by_uid(PodUid(each.metadata.uid)),
            manager.pod_by_full_name(pod_full_name(each)),
            mirrors.get(each.metadata.uid),
            manager.mirror_pod_by_pod(each),
        )

    return ask


def annotated(each: Pod) -> Pod:
    annotations = {**each.metadata.annotations, "changed": "yes"}
    return replace(each, metadata=replace(each.metadata, annotations=annotations))


def translated(*uids: str) -> Callable[[PodManager], list[str]]:
    return lambda manager: [manager.translate_pod_uid(uid) for uid in uids]


MIRROR, STATIC, NORMAL = "mirror-pod-uid", "static-pod-uid", "normal-pod-uid"


@pytest.mark.parametrize(
    ("steps", "ask", "expected"),
    [
        pytest.param([added(M)], where(M), (None, None, M, M), id="1.10-01 mirror added"),
        pytest.param(
            [added(M), added(annotated(M))],
            where(M),
            (None, None, annotated(M), annotated(M)),
            id="1.10-01 mirror updated",
        ),
        pytest.param([added(S)], where(S), (S, S, None, None), id="1.10-02 static added"),
        pytest.param(
            [added(S), added(annotated(S))],
            where(S),
            (annotated(S), annotated(S), None, None),
            id="1.10-02 static updated",
        ),
        pytest.param([added(N)], where(N), (N, N, None, None), id="1.10-03 normal added"),
        pytest.param(
            [added(N), added(annotated(N))],
            where(N),
            (annotated(N), annotated(N), None, None),
            id="1.10-03 normal updated",
        ),
        pytest.param([given(*ALL)], lambda m: set(map(id, m.pods())), {id(S), id(N)}, id="1.10-04 pods"),
        pytest.param(
            [given(*ALL)], translated(MIRROR, NORMAL, STATIC, ""), [STATIC, NORMAL, STATIC, ""], id="1.10-05 translate"
        ),
        pytest.param([added(S, NO_UID)], translated(""), [""], id="1.10-05 no UID"),
        pytest.param(
            [given(*ALL)],
            PodManager.uid_translations,
            ({STATIC: MIRROR}, {MIRROR: STATIC}),
            id="1.10-06 uid translations",
        ),
        pytest.param([given(*ALL)], lambda m: m.pod_by_full_name(FULL_NAME), S, id="1.10-07 get by full name"),
        pytest.param([given(*ALL)], lambda m: m.pod_by_name("default", NAME), S, id="1.10-07 get by name"),
        pytest.param([given(*ALL)], lambda m: m.pod_by_uid(PodUid(STATIC)), S, id="1.10-08 get by uid"),
        pytest.param([given(*ALL)], lambda m: m.pod_by_uid(PodUid(MIRROR)), None, id="1.10-08 mirror uid finds none"),
        pytest.param([given(*ALL)], lambda m: m.mirror_pod_by_pod(S), M, id="1.10-08 mirror of static"),
        pytest.param([given(*ALL)], lambda m: m.mirror_pod_by_pod(N), None, id="1.10-08 no mirror of normal"),
        pytest.param([given(*ALL)], lambda m: m.pod_and_mirror_pod(N), (N, None, False), id="1.10-09 normal pair"),
        pytest.param([given(*ALL)], lambda m: m.pod_and_mirror_pod(S), (S, M, False), id="1.10-09 static pair"),
        pytest.param([given(*ALL)], lambda m: m.pod_and_mirror_pod(M), (S, M, True), id="1.10-09 mirror pair"),
        pytest.param([given(*ALL)], lambda m: m.pod_by_mirror_pod(M), S, id="1.10-10 pod by mirror"),
        pytest.param(
            [given(*ALL), removed(M)], everything, ({STATIC, NORMAL}, set(), set()), id="1.10-12 mirror removed"
        ),
        pytest.param(
            [given(*ALL), removed(S)],
            everything,
            ({NORMAL}, {MIRROR}, {FULL_NAME}),
            id="1.10-13 static removed",
        ),
        pytest.param([given(*ALL), removed(N)], everything, ({STATIC}, {MIRROR}, set()), id="1.10-14 normal removed"),
        *(
            pytest.param(
                [given(*ALL), removed(each)],
                lambda m: m.pods() == m.pods_and_mirror_pods().pods,
                True,
                id=f"1.10-15 both readings agree without {each.metadata.uid}",
            )
            for each in ALL
        ),
        pytest.param([given(*ALL)], PodManager.static_to_mirror, {STATIC: M}, id="1.10-16 static to mirror"),
        pytest.param([given(S)], PodManager.uid_translations, ({STATIC: ""}, {}), id="1.10-17 no mirror yet"),
        pytest.param(
            [given(*ALL), removed(S)], translated(MIRROR), [STATIC], id="1.10-18 translation outlives the static pod"
        ),
        pytest.param(
            [given(*ALL), removed(S, M)], translated(MIRROR), [MIRROR], id="1.10-18 translation goes with the mirror"
        ),
        pytest.param([added(S, M)], translated(MIRROR), [STATIC], id="1.10-19 static first"),
        pytest.param([added(M, S)], translated(MIRROR), [STATIC], id="1.10-19 mirror first"),
        pytest.param(
            [added(S, S_AGAIN), removed(S)],
            where(S_AGAIN),
            (S_AGAIN, None, None, None),
            id="1.10-20 late remove takes the name of the successor",
        ),
    ],
)
def test_manager_answers(steps: Sequence[Step], ask: Callable[[PodManager], Any], expected: Any) -> None:
    manager = PodManager()
    for step in steps:
        step(manager)
    assert ask(manager) == expected


@pytest.mark.parametrize(
    ("mirror", "of", "expected"),
    [
        pytest.param(M, M, True, id="1.10-11 hash equals mirror value"),
        pytest.param(S, M, False, id="1.10-11 static is no mirror"),
        pytest.param(N, M, False, id="1.10-11 normal is no mirror"),
        pytest.param(M, S, False, id="1.10-11 missing hash counts as empty"),
        pytest.param(pod(NAME, annotations={CONFIG_MIRROR: ""}), S, True, id="1.10-11 empty mirror value, no hash"),
        pytest.param(pod("x", annotations=M.metadata.annotations), M, False, id="1.10-11 other name"),
    ],
)
def test_mirror_belongs_to_pod(mirror: Pod, of: Pod, *, expected: bool) -> None:
    assert is_mirror_pod_of(mirror, of) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("bar_foo", ("bar", "foo"), id="1.10-21 plain"),
        pytest.param("bar.org_foo.com", ("bar.org", "foo.com"), id="1.10-21 dots"),
        pytest.param("bar-bar_foo", ("bar-bar", "foo"), id="1.10-21 dash"),
    ],
)
def test_full_name_is_parsed(text: str, expected: tuple[str, str]) -> None:
    assert parse_full_name(text) == expected
    assert full_name(*expected) == text


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=f"1.10-22 {text!r}") for text in ("barfoo", "bar_foo_foo", "", "bar_", "_foo")]
)
def test_full_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f'^failed to parse the pod full name "{text}"$'):
        parse_full_name(text)
