"""Validation of metadata, scheduling, network and the rest of a pod's spec."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.api.field_errors import FieldError, aggregate_text, list_text, required, too_many
from pykubelet.kinds.pod.features import KUBELET_OPTIONS

Messages = Callable[..., list[str]]

_LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
_SUBDOMAIN = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
_QUALIFIED = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
_VALUE = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
_OWNER = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": True}
_OWNER_TEXT = '{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}'
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({"name": ""}, ["name: Required value: name or generateName is required"], id="no name"),
        pytest.param({"generateName": "ok-"}, [], id="prefix with a dash"),
        pytest.param({"generateName": "XX-"}, [f'generateName: Invalid value: "XX-": {_SUBDOMAIN}'], id="prefix"),
        pytest.param({"namespace": ""}, ["namespace: Required value"], id="no namespace"),
        pytest.param({"namespace": "a.b"}, ['namespace: Invalid value: "a.b": must not contain dots'], id="namespace"),
        pytest.param({"generation": -1}, ["generation: Invalid value: -1: must be greater than or equal to 0"], id="generation"),
        pytest.param(
            {"annotations": {"A_": "", "b": "x" * 2**18}},
            [f'annotations: Invalid value: "A_": {_QUALIFIED}', "annotations: Too long: may not be more than 262144 bytes"],
            id="annotations",
        ),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "a/b/c"}]},
            [
                'ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty',
                'ownerReferences.kind: Invalid value: "": must not be empty',
                'ownerReferences.name: Invalid value: "": must not be empty',
                'ownerReferences.uid: Invalid value: "": must not be empty',
            ],
            id="owner",
        ),
        pytest.param(
            {"ownerReferences": [{**_OWNER, "kind": "Event", "controller": False}]},
            [
                'ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"n","uid":"u","controller":false}: /v1, Kind=Event is disallowed from being an owner'
            ],
            id="event as owner",
        ),
        pytest.param(
            {"ownerReferences": [_OWNER, _OWNER]},
            [
                f'ownerReferences: Invalid value: [{_OWNER_TEXT},{_OWNER_TEXT}]: Only one reference can have Controller set to true. Found "true" in references for K/n and K/n'
            ],
            id="two controllers",
        ),
        pytest.param(
            {"finalizers": ["a b", "plain", "orphan", "foregroundDeletion"]},
            [
                f'finalizers: Invalid value: "a b": {_QUALIFIED}',
                'finalizers: Invalid value: ["a b","plain","orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set',
                'finalizers[0]: Invalid value: "a b": name is neither a standard finalizer name nor is it fully qualified',
                'finalizers[1]: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified',
            ],
            id="finalizers",
        ),
        pytest.param(
            {"managedFields": [{"operation": "X", "fieldsType": "Y", "manager": "m\n" + "x" * 127, "subresource": "s" * 257}]},
            [
                'managedFields[0].operation: Invalid value: "X": must be `Apply` or `Update`',
                'managedFields[0].fieldsType: Invalid value: "Y": must be `FieldsV1`',
                "managedFields[0].manager: Too long: may not be more than 128 bytes",
                f'managedFields[0].manager: Invalid value: "m\\n{"x" * 127}": invalid character U+000A (at position 1)',
                "managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ],
            id="managed fields",
        ),
        pytest.param(
            {"annotations": {"kubernetes.io/config.mirror": "m"}},
            ['annotations[kubernetes.io/config.mirror]: Invalid value: "m": must set spec.nodeName if mirror pod annotation is set'],
            id="mirror",
        ),
        *(
            pytest.param(
                {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}},
                [f'annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "{cost}": must be a 32bit integer'],
                id=f"deletion cost {cost}",
            )
            for cost in ("", "+1", "01", "1.0", "2147483648", "1" * 40)
        ),
        pytest.param({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-2147483648"}}, [], id="lowest cost"),
        pytest.param(
            {"annotations": {"scheduler.alpha.kubernetes.io/tolerations": '[{"Key":"a","operator":"X"}]'}},
            ['annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Unsupported value: "X": supported values: "Equal", "Exists"'],
            id="tolerations",
        ),
    ],
)  # fmt: skip
def test_metadata_is_refused_with_upstreams_words(
    messages: Messages, metadata: dict[str, Any], expected: list[str]
) -> None:
    assert messages(metadata=metadata) == [f"metadata.{text}" for text in expected]


_SPREAD = {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}


def _affinity(kind: str, **terms: Any) -> dict[str, Any]:
    return {"affinity": {kind: terms}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": []}, ["containers: Required value"], id="no containers"),
        pytest.param({"terminationGracePeriodSeconds": -5}, [], id="negative grace"),
        pytest.param({"activeDeadlineSeconds": 0}, ["activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"], id="deadline"),
        pytest.param({"preemptionPolicy": ""}, ["preemptionPolicy: Required value"], id="empty preemption"),
        pytest.param({"preemptionPolicy": "X"}, ['preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"'], id="preemption"),
        pytest.param(
            {"serviceAccountName": "A", "nodeName": "B", "hostname": "C", "subdomain": "D", "priorityClassName": "E", "runtimeClassName": "F"},
            [
                f'serviceAccountName: Invalid value: "A": {_SUBDOMAIN}',
                f'nodeName: Invalid value: "B": {_SUBDOMAIN}',
                f'hostname: Invalid value: "C": {_LABEL}',
                f'subdomain: Invalid value: "D": {_LABEL}',
                f'priorityClassName: Invalid value: "E": {_SUBDOMAIN}',
                f'runtimeClassName: Invalid value: "F": {_SUBDOMAIN}',
            ],
            id="names",
        ),
        pytest.param({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, ["nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"], id="gates and node"),
        pytest.param(
            {"schedulingGates": [{"name": "a b"}, {"name": "g"}, {"name": "g"}], "readinessGates": [{"conditionType": "a b"}]},
            [
                f'readinessGates[0].conditionType: Invalid value: "a b": {_QUALIFIED}',
                f'schedulingGates[0]: Invalid value: "a b": {_QUALIFIED}',
                'schedulingGates[2]: Duplicate value: "g"',
            ],
            id="gates",
        ),
        pytest.param({"overhead": {"disk": "1"}}, [
            'overhead.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified',
            'overhead.limits[disk]: Invalid value: "disk": must be a standard resource for containers',
        ], id="overhead"),
        pytest.param(
            {"hostAliases": [{"ip": "1.2.3", "hostnames": ["A"]}]},
            [
                'hostAliases[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
                f'hostAliases[0].hostnames[0]: Invalid value: "A": {_SUBDOMAIN}',
            ],
            id="host aliases",
        ),
        pytest.param({"dnsPolicy": "None"}, ["dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"], id="dns none"),
        pytest.param({"dnsPolicy": "None", "dnsConfig": {}}, ["dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"], id="dns without server"),
        pytest.param(
            {"dnsConfig": {"nameservers": ["::1", "1.1.1.1", "1.1.1.2", "x"], "searches": [".", "a_b.", "A"], "options": [{"value": "x"}]}},
            [
                'dnsConfig.nameservers: Invalid value: ["::1","1.1.1.1","1.1.1.2","x"]: must not have more than 3 nameservers',
                'dnsConfig.nameservers[3]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
                r"""dnsConfig.searches[2]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')""",
                "dnsConfig.options[0]: Required value: must not be empty",
            ],
            id="dns config",
        ),
        pytest.param(
            {"tolerations": [
                {"key": "a b", "operator": "X", "effect": "Y"},
                {"value": "v"},
                {"operator": "Exists", "value": "v", "tolerationSeconds": 1},
                {"key": "k", "value": "a b"},
            ]},
            [
                f'tolerations[0].key: Invalid value: "a b": {_QUALIFIED}',
                'tolerations[0].operator: Unsupported value: "X": supported values: "Equal", "Exists"',
                'tolerations[0].effect: Unsupported value: "Y": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
                'tolerations[1].operator: Invalid value: "": operator must be Exists when `key` is empty, which means "match all values and all keys"',
                "tolerations[2].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                "tolerations[2].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
                f'tolerations[3].operator: Invalid value: "a b": {_VALUE}',
            ],
            id="tolerations",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{**_SPREAD, "maxSkew": 0, "minDomains": 0}, _SPREAD, {"maxSkew": 1, "whenUnsatisfiable": "X", "minDomains": 1, "nodeTaintsPolicy": "Y"}]},
            [
                "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                'topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{k, DoNotSchedule}"',
                "topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero",
                "topologySpreadConstraints[2].topologyKey: Required value: can not be empty",
                'topologySpreadConstraints[2].whenUnsatisfiable: Unsupported value: "X": supported values: "DoNotSchedule", "ScheduleAnyway"',
                "topologySpreadConstraints[2].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not X",
                'topologySpreadConstraints[2].nodeTaintsPolicy: Unsupported value: "Y": supported values: "Honor", "Ignore"',
            ],
            id="spread",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{**_SPREAD, "matchLabelKeys": ["a"]}, {**_SPREAD, "topologyKey": "l", "matchLabelKeys": ["a"], "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "X"}]}}]},
            [
                "topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
                'topologySpreadConstraints[1][0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector',
                'topologySpreadConstraints[1].labelSelector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator',
            ],
            id="spread keys",
        ),
        pytest.param(
            _affinity("nodeAffinity", **{_REQUIRED: {}, _PREFERRED: [{"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]}}]}),
            [
                f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms: Required value: must have at least one node selector term",
                f"affinity.nodeAffinity.{_PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100",
            ],
            id="node affinity",
        ),
        pytest.param(
            _affinity("nodeAffinity", **{_REQUIRED: {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["v"]}, {"key": "a", "operator": "Gt"}, {"key": "a b", "operator": "X", "values": ["a b"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A", "b"]}, {"key": "k", "operator": "Gt"}],
            }]}}),
            [
                f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].{text}"
                for text in (
                    "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                    "matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    "matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                    'matchExpressions[3].operator: Invalid value: "X": not a valid selector operator',
                    f'matchExpressions[3].key: Invalid value: "a b": {_QUALIFIED}',
                    f'matchExpressions[3].values[0]: Invalid value: "a b": {_VALUE}',
                    "matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                    f'matchFields[0].values[0]: Invalid value: "A": {_SUBDOMAIN}',
                    'matchFields[1].operator: Invalid value: "Gt": not a valid selector operator',
                    'matchFields[1].key: Invalid value: "k": not a valid field selector key',
                )
            ],
            id="node selector",
        ),
        pytest.param(
            _affinity("podAntiAffinity", **{_REQUIRED: [{"namespaces": ["N"], "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"], "labelSelector": {"matchExpressions": [{"key": "b", "operator": "In"}]}}], _PREFERRED: [{"weight": 101, "podAffinityTerm": {"topologyKey": "k"}}]}),
            [
                f"affinity.podAntiAffinity.{_REQUIRED}[0].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                f'affinity.podAntiAffinity.{_REQUIRED}[0].namespace: Invalid value: "N": {_LABEL}',
                f'affinity.podAntiAffinity.{_REQUIRED}[0].matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys',
                f"affinity.podAntiAffinity.{_REQUIRED}[0].topologyKey: Required value: can not be empty",
                f'affinity.podAntiAffinity.{_REQUIRED}[0].topologyKey: Invalid value: "": name part must be non-empty',
                f'affinity.podAntiAffinity.{_REQUIRED}[0].topologyKey: Invalid value: "": {_QUALIFIED}',
                f"affinity.podAntiAffinity.{_PREFERRED}[0].weight: Invalid value: 101: must be in the range 1-100",
            ],
            id="pod affinity",
        ),
        pytest.param(
            {"resourceClaims": [{}, {"name": "a", "resourceClaimName": "A", "resourceClaimTemplateName": "b"}, {"name": "a", "resourceClaimName": "b"}]},
            [
                "resourceClaims[0].name: Required value",
                'resourceClaims[0]: Invalid value: {"Name":"","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`',
                'resourceClaims[1]: Invalid value: {"Name":"a","ResourceClaimName":"A","ResourceClaimTemplateName":"b"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified',
                f'resourceClaims[1].resourceClaimName: Invalid value: "A": {_SUBDOMAIN}',
                'resourceClaims[2].name: Duplicate value: "a"',
            ],
            id="claims",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "A", "resourceClaimName": "a"}]},
            [f'resourceClaims[0].name: Invalid value: "A": {_LABEL}'],
            id="name of a claim",
        ),
        pytest.param(
            {"hostnameOverride": "A" * 65, "setHostnameAsFQDN": True, "hostNetwork": True},
            [
                "hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
                "hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
                "hostnameOverride: Too long: may not be more than 64 bytes",
                f'hostnameOverride: Invalid value: "{"A" * 65}": {_SUBDOMAIN}',
            ],
            id="host name",
        ),
        pytest.param(
            {"hostNetwork": True, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2}]}]},
            ["containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"],
            id="host network",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "1", "disk/x": "1"}, "requests": {"cpu": "500m"}, "claims": [{"name": "x"}]}, "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]},
            [
                "resources.claims: Forbidden: claims may not be set for Resources at pod-level",
                'resources.limits[disk/x]: Unsupported value: "disk/x": supported values: "cpu", "hugepages-", "memory"',
                'resources.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty',
                'resources.requests[cpu]: Invalid value: "500m": must be greater than or equal to aggregate container requests of 2',
                'resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1',
            ],
            id="pod resources",
        ),
    ],
)  # fmt: skip
def test_spec_is_refused_with_upstreams_words(messages: Messages, spec: dict[str, Any], expected: list[str]) -> None:
    assert messages(spec) == [f"spec.{text}" for text in expected]


def test_mirror_pod_may_not_claim_resources(messages: Messages) -> None:
    """The error has no path, as upstream."""
    spec = {"nodeName": "n", "resourceClaims": [{"name": "a", "resourceClaimName": "b"}]}
    metadata = {"annotations": {"kubernetes.io/config.mirror": "m"}}
    assert messages(spec, metadata=metadata) == ["[]: Forbidden: static pods do not support resource claims"]


def test_kubelet_checks_spread_keys_by_the_older_rule(messages: Messages) -> None:
    """Without merging, such a key may not be in the selector too."""
    selector = {"matchLabels": {"a": "b"}}
    constraints = [
        {**_SPREAD, "matchLabelKeys": ["a"], "labelSelector": selector},
        {**_SPREAD, "topologyKey": "l", "matchLabelKeys": ["a"]},
    ]
    assert messages({"topologySpreadConstraints": constraints}, options=KUBELET_OPTIONS) == [
        'spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector',
        "spec.topologySpreadConstraints[1].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
    ]


@pytest.mark.parametrize(
    ("errors", "as_list", "as_aggregate"),
    [
        pytest.param([required("a")], "[a: Required value]", "a: Required value", id="one"),
        pytest.param(
            [required("a"), required("b"), required("a")],
            "[a: Required value b: Required value a: Required value]",
            "[a: Required value, b: Required value]",
            id="repeated",
        ),
        pytest.param(
            [too_many("a", 3, 1)],
            "[a: Too many: 3: must have at most 1 item]",
            "a: Too many: 3: must have at most 1 item",
            id="many",
        ),
    ],
)
def test_several_errors_have_one_text(errors: list[FieldError], as_list: str, as_aggregate: str) -> None:
    assert (list_text(errors), aggregate_text(errors)) == (as_list, as_aggregate)
