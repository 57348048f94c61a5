"""LimitRanger: the defaults that pods get, and the limits that pods and claims must keep."""

from typing import Any

import pytest

from pykubelet.apiserver.admission.limitranger import ANNOTATION, claim_problems, pod_problems, with_default_resources
from verb_requests import MERGE, Asker, pod

Body = dict[str, Any]
RANGES, PODS = "/api/v1/namespaces/default/limitranges", "/api/v1/namespaces/default/pods"


def container(requests: Body | None = None, limits: Body | None = None, name: str = "c", **rest: Any) -> Body:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **rest}


def spec(*containers: Body, **rest: Any) -> Body:
    return {"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": list(containers), **rest}}


def limit(kind: str = "Container", **amounts: Body) -> Body:
    return {"type": kind, **amounts}


DEFAULTS = limit(default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "100m"})


def test_containers_get_what_they_do_not_state() -> None:
    """The annotation lists it by container; what is stated stays, and pod limits give no defaults."""
    one = spec(
        container(), container({"cpu": "2"}, {"cpu": "3"}, "d"), initContainers=[container({}, {"memory": "2"}, "i")]
    )
    found = with_default_resources(one, [limit("Pod", default={"x": "1"}), DEFAULTS])
    assert found["metadata"]["annotations"] == {
        "a": "b",
        ANNOTATION: (
            "LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c; "
            "memory limit for container d; cpu request for init container i; cpu limit for init container i"
        ),
    }
    resources = [each["resources"] for each in (*found["spec"]["containers"], *found["spec"]["initContainers"])]
    assert resources == [
        {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}},
        {"requests": {"cpu": "100m"}, "limits": {"memory": "2", "cpu": "1"}},
    ]


def test_pod_stays_as_it_is_without_defaults() -> None:
    """The same document is returned, so it costs nothing to store."""
    one = spec(container())
    assert with_default_resources(one, [limit(max={"cpu": "1"})]) is one


MIN, MAX, RATIO = limit(min={"cpu": "100m"}), limit(max={"cpu": "1"}), limit(maxLimitRequestRatio={"cpu": "1500m"})
LEAST, MOST = "minimum cpu usage per Container is 100m", "maximum cpu usage per Container is 1"
HUGE = "maximum memory usage per Container is 9300T"
WITHIN = "cpu max limit to request ratio per Container is 1500m"


@pytest.mark.parametrize(
    ("rule", "requests", "limits", "problem"),
    [
        (MIN, {"cpu": "100m"}, {}, None),
        (MIN, {}, {"cpu": "1"}, f"{LEAST}.  No request is specified"),
        (MIN, {"cpu": "99m"}, {}, f"{LEAST}, but request is 99m"),
        (MIN, {"cpu": "1"}, {"cpu": "99m"}, f"{LEAST}, but limit is 99m"),
        (MAX, {}, {"cpu": "1"}, None),
        (MAX, {"cpu": "1"}, {}, f"{MOST}.  No limit is specified"),
        (MAX, {}, {"cpu": "1001m"}, f"{MOST}, but limit is 1001m"),
        (MAX, {"cpu": "2"}, {"cpu": "1"}, f"{MOST}, but request is 2"),
        (RATIO, {"cpu": "2"}, {"cpu": "3"}, None),
        (RATIO, {"cpu": "2"}, {"cpu": "4"}, f"{WITHIN}, but provided ratio is 2.000000"),
        (RATIO, {}, {"cpu": "4"}, f"{WITHIN}, but no request is specified or request is 0"),
        (RATIO, {"cpu": "1"}, {"cpu": "0"}, f"{WITHIN}, but no limit is specified or limit is 0"),
        (MAX, {"cpu": "1"}, {"cpu": "1"}, None),
        # Too large to compare thousandths.
        (limit(max={"memory": "9300T"}), {}, {"memory": "9300000000000001"}, f"{HUGE}, but limit is 9300000000000001"),
        (limit(maxLimitRequestRatio={"memory": "9300T"}), {"memory": "1"}, {"memory": "9000T"}, None),
    ],
)
def test_container_keeps_the_limits(rule: Body, requests: Body, limits: Body, problem: str | None) -> None:
    """Init containers too."""
    expected = [] if problem is None else [problem]
    assert list(pod_problems(spec(container(requests, limits)), [rule])) == expected
    assert list(pod_problems(spec(initContainers=[container(requests, limits)]), [rule])) == expected
    assert list(pod_problems(spec(container(requests, limits)), [{**rule, "type": "PersistentVolumeClaim"}])) == []


@pytest.mark.parametrize(
    ("one", "problems"),
    [
        (spec(container({}, {"cpu": "1"}), container({}, {"cpu": "1"})), ["but limit is 2"]),
        (spec(container({}, {"cpu": "2"}), resources={"limits": {"cpu": "1"}}), []),
        (spec(container({}, {"cpu": "1"}), initContainers=[container({}, {"cpu": "3"})]), ["but limit is 3"]),
    ],
    ids=["sum", "pod level", "init container"],
)
def test_pod_keeps_the_limits_as_a_whole(one: Body, problems: list[str]) -> None:
    found = list(pod_problems(one, [limit("Pod", max={"cpu": "1500m"})]))
    assert found == [f"maximum cpu usage per Pod is 1500m, {problem}" for problem in problems]


@pytest.mark.parametrize(
    ("requests", "problems"),
    [
        ({"storage": "2Gi"}, []),
        ({"storage": "1Mi"}, ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"]),
        ({"storage": "4Gi"}, ["maximum storage usage per PersistentVolumeClaim is 3Gi, but request is 4Gi"]),
        (
            {},
            [
                "minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified",
                "maximum storage usage per PersistentVolumeClaim is 3Gi.  No request is specified",
            ],
        ),
    ],
)
def test_claim_keeps_the_limits(requests: Body, problems: list[str]) -> None:
    claim = {"spec": {"resources": {"requests": requests, "limits": {"storage": "9Gi"}}}}
    rule = limit("PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "3Gi"})
    assert list(claim_problems(claim, [rule, limit(min={"cpu": "1"})])) == problems


async def test_writes_through_the_api_are_limited(asker: Asker) -> None:
    """Defaults count as stated; an update of a pod is free, a resize is not. Other namespaces have no limits."""
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}}
    rule = {**limit(max={"cpu": "1"}, min={"cpu": "1m"}), "default": {"cpu": "500m"}}
    await asker.ask("POST", RANGES, {**body, "spec": {"limits": [rule]}})
    made = await asker.ask("POST", PODS, pod("a"))
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}
    assert made["status"]["qosClass"] == "Burstable"
    wanted = pod("b", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}])
    assert await asker.refused("POST", PODS, wanted) == (403, f'pods "b" is forbidden: {MOST}, but limit is 2')
    await asker.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    resized = {
        "spec": {
            "containers": [
                {"name": "c", "image": "busybox:1", "resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "500m"}}}
            ]
        }
    }
    code, message = await asker.refused("PATCH", f"{PODS}/a/resize", resized, MERGE)
    assert (code, message) == (403, f'pods "a" is forbidden: {MOST}, but limit is 3')
    await asker.ask("POST", PODS.replace("default", "kube-system"), pod("a"))


async def test_pod_that_ends_is_not_limited_any_more(asker: Asker) -> None:
    """Otherwise its finalizers could not be removed once the limits are stricter."""
    body = pod("a", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}])
    await asker.ask("POST", PODS, {**body, "metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}}
    await asker.ask("POST", RANGES, {**ranges, "spec": {"limits": [limit(max={"cpu": "500m"})]}})
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "900m"}}}
    resized = {"spec": {"containers": [container]}}
    assert (await asker.refused("PATCH", f"{PODS}/a/resize", resized, MERGE))[0] == 403
    await asker.ask("DELETE", f"{PODS}/a")
    await asker.ask("PATCH", f"{PODS}/a/resize", resized, MERGE)


async def test_claims_are_limited_when_they_are_created_and_expanded(asker: Asker) -> None:
    """Reports of their status are not."""
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}}
    rule = limit("PersistentVolumeClaim", max={"storage": "2Gi"})
    await asker.ask("POST", RANGES, {**ranges, "spec": {"limits": [rule]}})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    why = "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    assert await asker.refused("POST", claims, body) == (403, f'persistentvolumeclaims "c" is forbidden: {why}')
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    await asker.ask("POST", claims, body)
    await asker.ask(
        "PATCH", f"{RANGES}/l", {"spec": {"limits": [limit("PersistentVolumeClaim", max={"storage": "1Mi"})]}}, MERGE
    )
    await asker.ask("PATCH", f"{claims}/c/status", {"status": {"phase": "Bound"}}, MERGE)
    code, message = await asker.refused("PATCH", f"{claims}/c", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert (code, message.rpartition("is ")[2]) == (403, "1Gi")
