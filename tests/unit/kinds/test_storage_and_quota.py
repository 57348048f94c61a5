"""The rules of persistent volumes, claims, quotas and limit ranges."""

from typing import Any

import pytest

from pykubelet.kinds import limit_range, persistent_volume, persistent_volume_claim, resource_quota
from strategy_calls import create, update, update_status

LIMIT_RANGES = limit_range.KIND.strategy
PERSISTENT_VOLUMES = persistent_volume.KIND.strategy
PERSISTENT_VOLUME_CLAIMS = persistent_volume_claim.KIND.strategy
RESOURCE_QUOTAS = resource_quota.KIND.strategy

_VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
_TERMINATING = {"scopeName": "Terminating", "operator": "Exists"}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def _volume(**spec: Any) -> tuple[dict[str, Any], list[str]]:
    return create(PERSISTENT_VOLUMES, {"spec": {**_VOLUME, **spec}}, namespace="")


def _claim(**spec: Any) -> tuple[dict[str, Any], list[str]]:
    return create(PERSISTENT_VOLUME_CLAIMS, {"spec": {**_CLAIM, **spec}})


def test_new_volume_is_pending_and_kept_after_use() -> None:
    volume, messages = _volume()
    assert messages == []
    spec = volume["spec"]
    assert (spec["persistentVolumeReclaimPolicy"], spec["volumeMode"]) == ("Retain", "Filesystem")
    assert spec["hostPath"] == {"path": "/data", "type": ""}
    assert volume["status"] == {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param({"accessModes": []}, ["spec.accessModes: Required value"], id="no mode"),
        pytest.param(
            {"capacity": {"storage": "0"}},
            ['spec.capacity[storage]: Invalid value: "0": must be greater than zero'],
            id="no room",
        ),
        pytest.param({"hostPath": None}, ["spec: Required value: must specify a volume type"], id="no source"),
        pytest.param(
            {"nfs": {"server": "s", "path": "/p"}},
            ["spec.nfs: Forbidden: may not specify more than 1 volume type"],
            id="two sources",
        ),
        pytest.param(
            {"hostPath": None, "local": {"path": "/p"}},
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
            id="local without a place",
        ),
        pytest.param(
            {"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"},
            ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
            id="recycled root",
        ),
        pytest.param(
            {"persistentVolumeReclaimPolicy": "Burn"},
            [
                'spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Recycle", "Retain"'
            ],
            id="policy",
        ),
        pytest.param(
            {"hostPath": None, "csi": {"driver": "d.example.com"}},
            ["spec.csi.volumeHandle: Required value"],
            id="no handle",
        ),
    ],
)
def test_bad_volume_is_rejected(spec: dict[str, Any], messages: list[str]) -> None:
    assert _volume(**spec)[1] == messages


def test_source_of_a_volume_stays() -> None:
    """The message ends with the lines that differ."""
    volume, _ = _volume()
    _, messages = update(PERSISTENT_VOLUMES, volume, {"spec": {"hostPath": {"path": "/other"}}})
    assert len(messages) == 1
    assert messages[0].startswith("spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable")
    assert '-  "Path": "/data",\n+  "Path": "/other",\n' in messages[0]


def test_time_of_a_phase_stays_as_long_as_the_phase_does() -> None:
    volume, _ = _volume()
    same, _ = update_status(PERSISTENT_VOLUMES, volume, {"status": {"lastPhaseTransitionTime": None}})
    assert same["status"] == volume["status"]


def test_claim_names_its_source_of_data_in_both_ways() -> None:
    """A source that dataSource does not support is dropped from it."""
    source = {"kind": "PersistentVolumeClaim", "name": "other"}
    assert _claim(dataSource=source)[0]["spec"]["dataSourceRef"] == source
    assert _claim(dataSourceRef=source)[0]["spec"]["dataSource"] == source
    dropped, messages = _claim(dataSource={"kind": "Tape", "name": "t", "apiGroup": "example.com"})
    assert ("dataSource" in dropped["spec"], messages) == (False, [])


def test_claim_is_fixed_but_for_its_volume_and_its_size_once_bound() -> None:
    claim, messages = _claim()
    assert (messages, claim["status"]) == ([], {"phase": "Pending"})
    bound, messages = update(PERSISTENT_VOLUME_CLAIMS, claim, {"spec": {"volumeName": "v"}})
    assert messages == []
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert [text.partition("\n")[0] for text in update(PERSISTENT_VOLUME_CLAIMS, bound, larger)[1]] == [
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    ]
    used, _ = update_status(
        PERSISTENT_VOLUME_CLAIMS, bound, {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    )
    assert update(PERSISTENT_VOLUME_CLAIMS, used, larger)[1] == []
    smaller = {"spec": {"resources": {"requests": {"storage": "512Mi"}}}}
    assert update(PERSISTENT_VOLUME_CLAIMS, used, smaller)[1] == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]
    # An expansion that is not done yet may be taken back, but not below the capacity.
    wanted, _ = update(PERSISTENT_VOLUME_CLAIMS, used, larger)
    between = {"spec": {"resources": {"requests": {"storage": "1536Mi"}}}}
    assert update(PERSISTENT_VOLUME_CLAIMS, wanted, between)[1] == []


def test_class_of_a_claim_may_be_set_once() -> None:
    """The default class may come later than the claim; the annotation of old clients never changes."""
    claim, _ = _claim()
    classed, messages = update(PERSISTENT_VOLUME_CLAIMS, claim, {"spec": {"storageClassName": "fast"}})
    assert messages == []
    (message,) = update(PERSISTENT_VOLUME_CLAIMS, classed, {"spec": {"storageClassName": "slow"}})[1]
    assert message.startswith("spec: Forbidden: spec is immutable after creation")
    name = "volume.beta.kubernetes.io/storage-class"
    assert update(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"annotations": {name: "fast"}}})[1] == [
        f'metadata.annotations.{name}: Invalid value: "fast": field is immutable'
    ]


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        pytest.param({"hard": {"pods": "2", "requests.cpu": "1", "example.com/gpu": "1"}}, [], id="fine"),
        pytest.param(
            {"hard": {"pods": "1.5"}}, ['spec.hard[pods]: Invalid value: "1500m": must be an integer'], id="half a pod"
        ),
        pytest.param(
            {"hard": {"storage": "1"}},
            ['spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota'],
            id="resource",
        ),
        pytest.param(
            {"hard": {"services": "1"}, "scopes": ["BestEffort"]},
            ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
            id="scope of pods",
        ),
        pytest.param(
            {"scopes": ["BestEffort", "NotBestEffort"]},
            ['spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes'],
            id="conflict",
        ),
        pytest.param(
            {"scopes": ["Mine"]}, ['spec.scopes: Invalid value: ["Mine"]: unsupported scope'], id="unknown scope"
        ),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            [
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            ],
            id="no values",
        ),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Is"}]}},
            [
                'spec.scopeSelector.matchExpressions.operator: Invalid value: "Is": not a valid selector operator',
            ],
            id="unknown operator",
        ),
        pytest.param({"scopeSelector": {"matchExpressions": [_TERMINATING]}}, [], id="scope exists"),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{**_TERMINATING, "values": ["a"]}]}},
            [
                "spec.scopeSelector.matchExpressions.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            ],
            id="values of a scope that exists",
        ),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{**_TERMINATING, "operator": "DoesNotExist"}]}},
            [
                "spec.scopeSelector.matchExpressions.operator: Invalid value: \"DoesNotExist\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            ],
            id="scope that only exists",
        ),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "Mine", "operator": "Exists"}]}},
            ['spec.scopeSelector.matchExpressions.scopeName: Invalid value: "Mine": unsupported scope'],
            id="unknown scope of a selector",
        ),
        pytest.param(
            {"hard": {"services": "1"}, "scopeSelector": {"matchExpressions": [_TERMINATING]}},
            [
                'spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":[{"ScopeName":"Terminating","Operator":"Exists","Values":null}]}: unsupported scope applied to resource'
            ],
            id="selected scope of pods",
        ),
    ],
)
def test_quota_limits_what_can_be_limited(spec: dict[str, Any], messages: list[str]) -> None:
    quota, found = create(RESOURCE_QUOTAS, {"spec": spec, "status": {"hard": {"pods": "1"}}})
    assert (quota["status"], found) == ({}, messages)


def test_scopes_of_a_quota_stay() -> None:
    quota, _ = create(RESOURCE_QUOTAS, {"spec": {"scopes": ["BestEffort"]}})
    assert update(RESOURCE_QUOTAS, quota, {"spec": {"scopes": None}})[1] == [
        "spec.scopes: Invalid value: null: field is immutable"
    ]
    assert update_status(RESOURCE_QUOTAS, quota, {"status": {"used": {"pods": "-1"}}})[1] == [
        'status.used[pods]: Invalid value: "-1": must be greater than or equal to 0'
    ]


def test_limits_of_containers_are_completed_from_each_other() -> None:
    """The default limit comes from max, and the default request from the default limit or else from min."""
    limit = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"}}
    found, messages = create(LIMIT_RANGES, {"spec": {"limits": [limit]}})
    assert messages == []
    assert found["spec"]["limits"] == [
        {**limit, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}}
    ]
    assert create(LIMIT_RANGES, {})[0]["spec"] == {"limits": None}


@pytest.mark.parametrize(
    ("limit", "messages"),
    [
        pytest.param(
            {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "2"}},
            [
                'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
                'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than max value 1',
                'spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1',
            ],
            id="order",
        ),
        pytest.param(
            {"type": "Pod", "default": {"cpu": "1"}},
            ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
            id="default of a pod",
        ),
        pytest.param(
            {"type": "PersistentVolumeClaim"},
            [
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"
            ],
            id="claim",
        ),
        pytest.param(
            {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}},
            [
                'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000'
            ],
            id="ratio",
        ),
        pytest.param(
            {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}},
            [],
            id="largest ratio",
        ),
        pytest.param(
            {"type": "Pod", "min": {"cpu": "0"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "9"}},
            [],
            id="any ratio to nothing",
        ),
        pytest.param({"type": "Pod", "maxLimitRequestRatio": {"cpu": "1"}}, [], id="ratio of one"),
        *(
            pytest.param(
                {"type": "Container", field: {"gold": "1"}},
                [
                    f'spec.limits[0].{field}[gold]: Invalid value: "gold": must be a standard resource type or fully qualified',
                    f'spec.limits[0].{field}[gold]: Invalid value: "gold": must be a standard resource for containers',
                ],
                id=f"{field} of no resource",
            )
            for field in ("maxLimitRequestRatio", "defaultRequest")
        ),
        pytest.param(
            {"type": "Pod", "maxLimitRequestRatio": {"cpu": "999m"}},
            ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "999m": ratio 999m is less than 1'],
            id="ratio below one",
        ),
        pytest.param(
            {"type": "Box"},
            ['spec.limits[0].type: Invalid value: "Box": must be a standard limit type or fully qualified'],
            id="type",
        ),
    ],
)
def test_bad_limit_is_rejected(limit: dict[str, Any], messages: list[str]) -> None:
    assert create(LIMIT_RANGES, {"spec": {"limits": [limit]}})[1] == messages
