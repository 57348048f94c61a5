"""Warnings about pods and templates: one row for each reason, with upstream's texts."""

from typing import Any

import pytest

from pykubelet.kinds.pod.warnings import apparmor_warnings, pod_status_warnings, pod_warnings, template_warnings

_DEPRECATED_OS = 'deprecated since v1.14; use "kubernetes.io/os" instead'
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APPARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_NO_POD = "a null labelSelector results in matching no pod"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OS_TERM = {"matchExpressions": [{"key": "a", "values": ["x y"]}, {"key": "beta.kubernetes.io/os"}]}
_BAD_VALUE = (
    "x y is invalid, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _pod(spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", **metadata}, "spec": spec or {}}


def _container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", **fields}]}


_FRACTIONAL = {"memory": "1500m", "ephemeral-storage": "4m", "cpu": "100m"}
_ENV = [
    {"name": "a", "value": "a"},
    {"name": "a", "value": "other"},
    {"name": "a"},
    {"name": "a", "value": "$(a)"},
    {"name": "a", "valueFrom": {}},
    {"name": "a", "value": "$(a) and more"},
]


def _fractions(path: str, *, kinds: tuple[str, ...] = ("",)) -> list[str]:
    said = "fractional byte value {} is invalid, must be an integer"
    shown = {"memory": '"1500m"', "ephemeral-storage": '"4m"'}
    return [f"{path}{kind}[{name}]: {said.format(text)}" for name, text in shown.items() for kind in kinds]


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param(
            {"volumes": [{"name": "v", "rbd": {}}]},
            ["spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"],
            id="volumes",
        ),
        pytest.param(
            {"nodeSelector": {"beta.kubernetes.io/os": "linux", "a": "b"}},
            [f"spec.nodeSelector[beta.kubernetes.io/os]: {_DEPRECATED_OS}"],
            id="node selector",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_OS_TERM]}}}},
            [
                (f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].matchExpressions[1].key: "
                f"beta.kubernetes.io/os is {_DEPRECATED_OS}")
            ],
            id="required nodes",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {_PREFERRED: [{"preference": _OS_TERM}]}}},
            [
                f"spec.affinity.nodeAffinity.{_PREFERRED}[0].preference.matchExpressions[0].values[0]: {_BAD_VALUE}",
                (f"spec.affinity.nodeAffinity.{_PREFERRED}[0].preference.matchExpressions[1].key: "
                f"beta.kubernetes.io/os is {_DEPRECATED_OS}"),
            ],
            id="preferred nodes",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "beta.kubernetes.io/os"}, {"labelSelector": {}}]},
            [
                f"spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/os is {_DEPRECATED_OS}",
                f"spec.topologySpreadConstraints[0].labelSelector: {_NO_POD}",
            ],
            id="spread",
        ),
        pytest.param(
            {"affinity": {kind: {_REQUIRED: [{}], _PREFERRED: [{"podAffinityTerm": {}}]} for kind in ("podAffinity", "podAntiAffinity")}},
            [
                f"spec.affinity.{kind}.{at}labelSelector: {_NO_POD}"
                for kind in ("podAffinity", "podAntiAffinity")
                for at in (f"{_REQUIRED}[0].", f"{_PREFERRED}[0].podAffinityTerm.")
            ],
            id="affinity of pods",
        ),
        pytest.param(
            {"hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}, {"ip": "01.1.1.1"}]},
            [
                'spec.hostAliases[1].ip: duplicate ip "1.1.1.1"',
                ('spec.hostAliases[2].ip: non-standard IP address "01.1.1.1" will be considered invalid in a future '
                'Kubernetes release: use "1.1.1.1"'),
            ],
            id="host aliases",
        ),
        pytest.param(
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}, {}]},
            [
                'spec.imagePullSecrets[1].name: duplicate name "a"',
                'spec.imagePullSecrets[3].name: duplicate name ""',
                'spec.imagePullSecrets[2].name: invalid empty name ""',
                'spec.imagePullSecrets[3].name: invalid empty name ""',
            ],
            id="pull secrets",
        ),
        pytest.param({"overhead": _FRACTIONAL}, _fractions("spec.overhead"), id="overhead"),
        pytest.param(
            _container(resources={"limits": _FRACTIONAL, "requests": _FRACTIONAL}),
            _fractions("spec.containers[0].resources", kinds=(".limits", ".requests")),
            id="resources",
        ),
        pytest.param(_container(resources={"limits": {"memory": "1Gi"}}), [], id="whole bytes"),
        pytest.param(
            {"initContainers": [{"name": "i", "env": _ENV}]},
            [
                f'spec.initContainers[0].env[{index}]: hides previous definition of "a", which may be dropped when using '
                "apply"
                for index in (1, 2, 3, 4)
            ],
            id="environment",
        ),
        pytest.param(
            {"terminationGracePeriodSeconds": -1},
            [
                "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
            ],
            id="grace period",
        ),
        pytest.param(
            {"dnsConfig": {"nameservers": ["8.8.8.8", "FD00::1"]}},
            [
                'spec.dnsConfig.nameservers[1]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'
            ],
            id="nameservers",
        ),
    ],
)  # fmt: skip
def test_spec_of_pod_warns(spec: dict[str, Any], warnings: list[str]) -> None:
    """A template gives the same warnings with a longer path."""
    assert pod_warnings(_pod(spec)) == warnings
    assert template_warnings(_pod(spec), "spec.template") == [f"spec.template.{warning}" for warning in warnings]


@pytest.mark.parametrize(
    ("ports", "warnings"),
    [
        pytest.param([{"containerPort": 80}, {"containerPort": 81}], [], id="apart"),
        pytest.param(
            [{"containerPort": 80, "protocol": "TCP", "hostIP": "127.0.0.1"}],
            ["0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:127.0.0.1}"],
            id="address without port",
        ),
        pytest.param([{"containerPort": 80}] * 2, ["1]: duplicate port definition with"], id="twice"),
        pytest.param(
            [{"containerPort": 80}, {"containerPort": 80, "hostPort": 8080}],
            ["1]: overlapping port definition with"],
            id="one is on the host",
        ),
        pytest.param(
            [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "hostIP": "1.1.1.1"}],
            ["1]: dangerously ambiguous port definition with"],
            id="one address is open",
        ),
        pytest.param(
            [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 81}], [], id="other host ports"
        ),
        pytest.param(
            [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}], [], id="protocols"
        ),
    ],
)
def test_ports_that_collide_warn(ports: list[dict[str, Any]], warnings: list[str]) -> None:
    """The ports can be those of one container or of several."""
    path = "spec.containers[0].ports["
    shown = [f"{path}{said}{f' {path}0]' if said.endswith('with') else ''}" for said in warnings]
    assert pod_warnings(_pod(_container(ports=ports))) == shown
    spread = {"containers": [{"name": str(index), "ports": [port]} for index, port in enumerate(ports)]}
    assert len(pod_warnings(_pod(spread))) == len(warnings)


def test_port_name_used_twice_warns_after_all_numbers() -> None:
    """The warning names the first port with that name."""
    port = {"name": "http", "containerPort": 80}
    spec = {"initContainers": [{"name": "i", "ports": [port]}], "containers": [{"name": "c", "ports": [port]}]}
    first, second = "spec.initContainers[0].ports[0]", "spec.containers[0].ports[0]"
    assert pod_warnings(_pod(spec)) == [
        f"{second}: duplicate port definition with {first}",
        (
            f'{second}: duplicate port name "http" with {first}, services and probes that select ports by name will use '
            f"{first}"
        ),
    ]


def test_annotations_that_became_fields_warn() -> None:
    """The seccomp annotations do not warn when the field is set too."""
    keys = {
        "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
        "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
        "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
        "seccomp.security.alpha.kubernetes.io/pod": _SECCOMP,
        "container.seccomp.security.alpha.kubernetes.io/c": _SECCOMP,
    }
    annotations = dict.fromkeys(keys, "x")
    shown = [f"metadata.annotations[{key}]: {said}" for key, said in keys.items()]
    assert pod_warnings(_pod(_container(), annotations=annotations)) == shown
    context = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    assert pod_warnings(_pod(context | _container(**context), annotations=annotations)) == shown[:3]


@pytest.mark.parametrize(
    ("annotation", "whole", "own", "warns"),
    [
        pytest.param("runtime/default", None, None, True, id="becomes a field"),
        pytest.param("nonsense", None, None, True, id="becomes none"),
        pytest.param("localhost/", None, None, True, id="no name"),
        pytest.param("localhost/x", {"type": "Localhost", "localhostProfile": "x"}, None, False, id="pod says so"),
        pytest.param("unconfined", {"type": "RuntimeDefault"}, None, True, id="pod says another"),
        pytest.param("unconfined", None, {"type": "RuntimeDefault"}, False, id="field is there"),
    ],
)
def test_apparmor_annotation_warns(*, annotation: str, whole: Any, own: Any, warns: bool) -> None:
    """For a pod the warning is computed from the received object, for a template with all others."""
    key = "container.apparmor.security.beta.kubernetes.io/c"
    spec = _container(securityContext={"appArmorProfile": own} if own else {})
    if whole:
        spec["securityContext"] = {"appArmorProfile": whole}
    document = _pod(spec, annotations={key: annotation})
    said = [f"metadata.annotations[{key}]: {_APPARMOR}"] * warns
    assert apparmor_warnings(document) == said
    assert pod_warnings(document) == []
    assert template_warnings(document, "template") == [f"template.{text}" for text in said]
    assert apparmor_warnings(_pod(spec | {"os": {"name": "windows"}}, annotations={key: annotation})) == []
    assert apparmor_warnings(_pod(spec)) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("web", "", id="label"),
        pytest.param("a.b", "must not contain dots", id="subdomain"),
        pytest.param("a" * 64, "must be no more than 63 characters", id="long"),
    ],
)
def test_name_of_pod_should_be_a_label(name: str, why: str) -> None:
    """The name of the pod is its host name."""
    said = (
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
        f"recommended: [{why}]"
    )
    assert pod_warnings(_pod(name=name)) == [said] * bool(why)


def test_addresses_in_the_status_warn() -> None:
    """Warnings about the pod's addresses come first."""
    status = {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "FD00::1"}], "hostIPs": [{"ip": "010.0.0.1"}]}
    first, second = pod_status_warnings({"status": status}, {})
    assert first.startswith('status.podIPs[1].ip: IPv6 address "FD00::1"')
    assert second.startswith('status.hostIPs[0].ip: non-standard IP address "010.0.0.1"')
