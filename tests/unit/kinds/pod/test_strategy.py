"""The strategy of pods: changes on create, allowed updates, status updates, grace periods."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.kinds.pod import strategy as pod
from pykubelet.kinds.pod.strategy import fields, grace_seconds
from strategy_calls import create, update, update_status

EPHEMERAL_CONTAINERS = pod.KIND.subresource_strategies["ephemeralcontainers"]
PODS = pod.KIND.strategy
RESIZE = pod.KIND.subresource_strategies["resize"]

_CONTAINER = {"name": "c", "image": "x:1"}
_MIRROR = {"annotations": {"kubernetes.io/config.mirror": "h"}}


def _stored(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    pod, messages = create(PODS, _pod(metadata, **spec))
    assert messages == []
    return pod


def _pod(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata or {},
        "spec": {"containers": [_CONTAINER], **spec},
    }


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        pytest.param([{}], "BestEffort", id="nothing"),
        pytest.param([{"requests": {"cpu": "0"}}], "BestEffort", id="zero"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="requests"),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed", id="limits"),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable", id="one of two"),
        pytest.param(
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable", id="less than limits"
        ),
    ],
)
def test_new_pod_has_the_qos_class_of_its_resources(resources: list[Any], quality: str) -> None:
    """Class and phase are set on create, and a status from the client is ignored."""
    containers = [{**_CONTAINER, "name": f"c{index}", "resources": each} for index, each in enumerate(resources)]
    pod, _ = create(PODS, {**_pod(containers=containers), "status": {"phase": "Running"}})
    assert pod["status"] == {"phase": "Pending", "qosClass": quality}
    assert pod["metadata"]["generation"] == 1


def test_gated_pod_has_a_condition() -> None:
    """The scheduler skips the pod, and the condition shows why."""
    pod = _stored(schedulingGates=[{"name": "example.com/wait"}])
    assert [(each["type"], each["status"], each["reason"]) for each in pod["status"]["conditions"]] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


def test_fields_whose_features_are_off_are_dropped_when_a_pod_is_made() -> None:
    """Dependent fields are dropped too, such as the mounts of a dropped volume."""
    container = {
        **_CONTAINER,
        "restartPolicy": "Never",
        "lifecycle": {"stopSignal": "SIGTERM"},
        "volumeMounts": [{"name": "image", "mountPath": "/i"}, {"name": "dir", "mountPath": "/d"}],
    }
    volumes = [
        {"name": "image", "image": {"reference": "x", "pullPolicy": "Always"}},
        {"name": "dir", "emptyDir": {}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "m"}, "podCertificate": {}}]}},
    ]
    pod = _stored(containers=[container], volumes=volumes, hostnameOverride="h")
    found = pod["spec"]["containers"][0]
    assert "hostnameOverride" not in pod["spec"]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["dir", "p"]
    assert pod["spec"]["volumes"][1]["projected"]["sources"] == [{"configMap": {"name": "m"}}]
    assert [mount["name"] for mount in found["volumeMounts"]] == ["dir"]
    assert not {"restartPolicy", "lifecycle"} & set(found)


def test_keys_of_labels_become_part_of_selectors_when_a_pod_is_made() -> None:
    """The values are those of the pod's labels; keys that the pod lacks are ignored."""
    term = {
        "labelSelector": {"matchLabels": {"app": "a"}},
        "topologyKey": "zone",
        "matchLabelKeys": ["version", "missing"],
        "mismatchLabelKeys": ["tenant"],
    }
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["version"]}
    pod = _stored(
        {"labels": {"version": "1", "tenant": "t"}},
        affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        topologySpreadConstraints=[{**spread, "labelSelector": {}}],
    )
    required = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    version = {"key": "version", "operator": "In", "values": ["1"]}
    other = {"key": "tenant", "operator": "NotIn", "values": ["t"]}
    assert required["labelSelector"]["matchExpressions"] == [version, other]
    assert pod["spec"]["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": [version]}


def test_apparmor_annotation_becomes_a_field_when_a_pod_is_made() -> None:
    """Old clients set only the annotation."""
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    pod = _stored({"annotations": {f"{prefix}c": "localhost/web", "example.com/a": "b"}})
    profile = {"type": "Localhost", "localhostProfile": "web"}
    assert pod["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": profile}


@pytest.mark.parametrize(
    ("patch", "messages"),
    [
        pytest.param({"containers": [{**_CONTAINER, "image": "x:2"}]}, [], id="image"),
        pytest.param({"activeDeadlineSeconds": 5}, [], id="deadline"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, [], id="more tolerations"),
        pytest.param(
            {"containers": [_CONTAINER, {**_CONTAINER, "name": "d"}]},
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
            id="more containers",
        ),
        pytest.param(
            {"activeDeadlineSeconds": -1},
            [
                "spec.activeDeadlineSeconds: Invalid value: -1: must be between 1 and 2147483647, inclusive",
                "spec.activeDeadlineSeconds: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
            id="negative deadline",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a"}]},
            [
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a'",
            ],
            id="new gate",
        ),
    ],
)
def test_update_of_a_pod_lets_few_changes_through(patch: dict[str, Any], messages: list[str]) -> None:
    """A change of the spec increments the generation."""
    pod = _stored()
    new, found = update(PODS, pod, {"spec": patch})
    assert found == messages
    assert new["metadata"]["generation"] == 2


def test_update_of_a_pod_shows_what_may_not_change() -> None:
    """The message ends with a diff that has three lines of context."""
    _, messages = update(PODS, _stored(), {"spec": {"hostname": "other"}})
    assert len(messages) == 1
    assert messages[0].startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*]")
    assert '- "Hostname": "",\n+ "Hostname": "other",\n' in messages[0]


def test_tolerations_may_change_their_seconds_but_nothing_else() -> None:
    """An existing toleration may not be removed."""
    pod = _stored(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}])
    longer = [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}]
    assert update(PODS, pod, {"spec": {"tolerations": longer}})[1] == []
    assert update(PODS, pod, {"spec": {"tolerations": []}})[1] == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


@pytest.mark.parametrize(
    ("patch", "count"),
    [
        pytest.param({"nodeSelector": {"a": "b", "c": "d"}}, 0, id="narrower"),
        pytest.param({"nodeSelector": {"a": "z"}}, 1, id="other"),
        pytest.param({"schedulingGates": None}, 0, id="gate gone"),
        pytest.param({"hostname": "h"}, 1, id="anything else"),
    ],
)
def test_gated_pod_may_have_its_choice_of_nodes_narrowed(patch: dict[str, Any], count: int) -> None:
    """The node selector may become stricter until the pod is scheduled."""
    pod = _stored(nodeSelector={"a": "b"}, schedulingGates=[{"name": "g"}])
    assert len(update(PODS, pod, {"spec": patch})[1]) == count


def test_gated_pod_may_get_a_node_affinity_and_further_expressions_only() -> None:
    """An existing affinity may only become stricter."""
    first = {"key": "zone", "operator": "In", "values": ["z"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"

    def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
        terms = [{"matchExpressions": list(expressions)}]
        return {"spec": {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}}}

    free = _stored(schedulingGates=[{"name": "g"}])
    bound, messages = update(PODS, free, affinity(first))
    assert messages == []
    assert update(PODS, bound, affinity(first, {**first, "key": "disk"}))[1] == []
    at = f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[0]"
    assert [text.partition(": ")[0] for text in update(PODS, bound, affinity({**first, "key": "disk"}))[1]] == [at]


def test_terms_of_a_node_affinity_are_neither_added_nor_removed_nor_filled() -> None:
    """A further term would widen the choice, and a term without expressions selects no node."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"

    def terms(*keys: str) -> dict[str, Any]:
        found = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} if key else {} for key in keys]
        return {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": found}}}}

    def shown(key: str) -> str:
        return f'{{"MatchExpressions":[{{"Key":"{key}","Operator":"Exists","Values":null}}],"MatchFields":null}}'

    at = f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms"
    fixed = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
    narrower = "only additions are allowed (no mutations or deletions)"
    for old, new, messages in (
        (("a",), ("a", "b"), [f"{at}: Invalid value: [{shown('a')},{shown('b')}]: {fixed}"]),
        (("a", "b"), ("a",), [f"{at}: Invalid value: [{shown('a')}]: {fixed}"]),
        (("", "a"), ("", "a"), []),
        (("", "a"), ("b", "a"), [f"{at}[0]: Invalid value: {shown('b')}: {narrower}"]),
    ):
        stored = _stored(schedulingGates=[{"name": "g"}], **terms(*old))
        assert update(PODS, stored, {"spec": terms(*new)})[1] == messages


def test_status_update_keeps_what_only_the_server_or_owners_may_write() -> None:
    """Spec, class, owners and observed generations stay; labels may change."""
    pod = _stored(nodeName="n")
    seen, messages = update_status(
        PODS,
        pod,
        {
            "metadata": {"labels": {"a": "b"}, "ownerReferences": [{"name": "x"}]},
            "spec": {"nodeName": "other"},
            "status": {
                "qosClass": None,
                "observedGeneration": 3,
                "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 3}],
            },
        },
    )
    assert messages == []
    assert (seen["spec"], seen["status"]["qosClass"]) == (pod["spec"], "BestEffort")
    assert (seen["metadata"]["labels"], "ownerReferences" in seen["metadata"]) == ({"a": "b"}, False)
    again = {"status": {"observedGeneration": None, "conditions": [{"type": "Ready", "status": "False"}]}}
    kept, _ = update_status(PODS, seen, again)
    assert (kept["status"]["observedGeneration"], kept["status"]["conditions"][0]["observedGeneration"]) == (3, 3)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(
            {"qosClass": "Guaranteed"}, 'status.qosClass: Invalid value: "Guaranteed": field is immutable', id="class"
        ),
        pytest.param(
            {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]},
            'status.podIPs: Invalid value: [{"IP":"1.2.3.4"},{"IP":"1.2.3.5"}]: may specify no more than one IP for each IP family',
            id="two addresses",
        ),
        pytest.param(
            {"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.5"}]},
            'status.hostIPs[0].ip: Invalid value: "1.2.3.5": must be equal to `hostIP`',
            id="other host",
        ),
        pytest.param(
            {"observedGeneration": -1},
            "status.observedGeneration: Invalid value: -1: must be a non-negative integer",
            id="generation",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "c", "state": {"running": {}}}]},
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
            id="runs again",
        ),
    ],
)
def test_status_update_is_refused_when_it_contradicts_what_was(status: dict[str, Any], message: str) -> None:
    """A container that has ended for good never runs again."""
    ended = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]}
    pod, _ = update_status(PODS, _stored(restartPolicy="Never"), {"status": ended})
    assert update_status(PODS, pod, {"status": status})[1] == [message]


def test_status_update_is_refused_when_it_adds_an_annotation_that_is_fixed() -> None:
    """Metadata may change through the status, but by the rules of metadata."""
    patch = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "m", "free": "x"}}}
    messages = update_status(PODS, _stored(nodeName="n"), patch)[1]
    at = "metadata.annotations[kubernetes.io/config.mirror]"
    assert messages == [f"{at}: Forbidden: may not add mirror pod annotation"]
    assert update_status(PODS, _stored(nodeName="n"), {"metadata": {"annotations": {"free": "x"}}})[1] == []


@pytest.mark.parametrize(("policy", "exit_code", "count"), [("Always", 1, 0), ("OnFailure", 1, 0), ("OnFailure", 0, 1)])
def test_container_may_run_again_when_the_restart_policy_allows_it(policy: str, exit_code: int, count: int) -> None:
    ended = {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": exit_code}}}]}
    pod, _ = update_status(PODS, _stored(restartPolicy=policy), {"status": ended})
    again = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    assert len(update_status(PODS, pod, {"status": again})[1]) == count


def test_ephemeral_containers_may_be_added_but_not_changed_or_removed() -> None:
    """This endpoint changes nothing else."""
    debug = {"name": "d", "image": "busybox"}
    stored = _stored()
    patch = {"spec": {"ephemeralContainers": [debug], "hostname": "h"}, "metadata": {"labels": {"a": "b"}}}
    added, messages = update(EPHEMERAL_CONTAINERS, stored, patch)
    assert messages == []
    assert ("hostname" in added["spec"], "labels" in added["metadata"]) == (False, False)
    assert added["metadata"]["generation"] == 2
    changed = update(EPHEMERAL_CONTAINERS, added, {"spec": {"ephemeralContainers": [{**debug, "image": "y"}]}})[1]
    removed = update(EPHEMERAL_CONTAINERS, added, {"spec": {"ephemeralContainers": []}})[1]
    assert ['existing ephemeral containers "d" may not be changed' in text for text in changed] == [True]
    assert ['existing ephemeral containers "d" may not be removed' in text for text in removed] == [True]
    mirror = apply_merge(_stored(_MIRROR, nodeName="n"), {})
    assert update(EPHEMERAL_CONTAINERS, mirror, {"spec": {"ephemeralContainers": [debug]}})[1] == [
        "[]: Forbidden: static pods do not support ephemeral containers"
    ]


@pytest.mark.parametrize(
    ("resources", "messages"),
    [
        pytest.param({"requests": {"cpu": "2", "memory": "1Gi"}}, [], id="more"),
        pytest.param(
            {"requests": {"cpu": "2"}},
            ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
            id="memory gone",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}},
            ["spec: Forbidden: only cpu and memory resources are mutable"],
            id="disk",
        ),
        pytest.param(
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'],
            id="other class",
        ),
    ],
)
def test_resize_changes_cpu_and_memory_only(resources: dict[str, Any], messages: list[str]) -> None:
    container = {**_CONTAINER, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    stored = _stored(containers=[container])
    patch = {"spec": {"containers": [{**_CONTAINER, "image": "other", "resources": resources}]}}
    resized, found = update(RESIZE, stored, patch)
    assert found == messages
    assert resized["spec"]["containers"][0]["image"] == "x:1"


def test_resize_refuses_other_containers() -> None:
    stored = _stored()
    renamed = update(RESIZE, stored, {"spec": {"containers": [{**_CONTAINER, "name": "d"}]}})[1]
    assert renamed == [
        "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize",
    ]


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "seconds"),
    [
        pytest.param({"nodeName": "n"}, "Running", None, 30, id="its own"),
        pytest.param({"nodeName": "n"}, "Running", 5, 5, id="asked for"),
        pytest.param({"nodeName": "n"}, "Running", -5, 1, id="negative"),
        pytest.param({"nodeName": "n"}, "Failed", 5, 0, id="ended"),
        pytest.param({}, "Pending", 5, 0, id="no node"),
    ],
)
def test_grace_period_of_a_pod(spec: dict[str, Any], phase: str, asked: int | None, seconds: int) -> None:
    pod = _stored(**spec)
    assert grace_seconds({**pod, "status": {"phase": phase}}, asked) == seconds


@given(asked=st.none() | st.integers(-(2**31), 2**31 - 1), own=st.integers(0, 10**6), node=st.booleans())
@settings(max_examples=50)
def test_grace_period_is_never_negative(asked: int | None, own: int, node: bool) -> None:
    spec = {"nodeName": "n" if node else "", "terminationGracePeriodSeconds": own}
    assert grace_seconds({"spec": spec, "status": {}}, asked) >= 0


def test_pod_can_be_selected_by_its_node_and_phase() -> None:
    found = fields(_stored(nodeName="n", hostNetwork=True))
    assert (found["spec.nodeName"], found["spec.hostNetwork"], found["status.phase"]) == ("n", "true", "Pending")
