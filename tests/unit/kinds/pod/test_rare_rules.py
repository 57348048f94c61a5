"""Rules that apply to few pods: pods without defaults, other options, unusual texts."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.api.field_errors import go_json, go_quote
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.kinds.metadata import metadata_errors
from pykubelet.kinds.pod.features import KUBELET_OPTIONS
from pykubelet.kinds.pod.validation import validate_pod_create

Messages = Callable[..., list[str]]

_SUBDOMAIN = dns1123_subdomain_errors("A")[0]


def test_pod_without_defaults_lacks_what_defaults_fill_in() -> None:
    """Validation reports each missing default as an error."""
    pod: dict[str, Any] = {
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {
            "containers": [{"ports": [{"containerPort": 1}], "env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}]
        },
    }
    at = "spec.containers[0]"
    assert [str(error) for error in validate_pod_create(pod)] == [
        "spec.terminationGracePeriodSeconds: Required value",
        f"{at}.name: Required value",
        f"{at}.image: Required value",
        f"{at}.terminationMessagePolicy: Required value",
        f"{at}.ports[0].protocol: Required value",
        f"{at}.env[0].valueFrom.fieldRef.apiVersion: Required value",
        f"{at}.imagePullPolicy: Required value",
        "spec.restartPolicy: Required value",
        "spec.dnsPolicy: Required value",
    ]
    volume = {**pod["spec"], "volumes": [{"name": "v"}]}
    texts = [str(error) for error in validate_pod_create({**pod, "spec": volume})]
    assert "spec.volumes[0]: Required value: must specify a volume type" in texts


def test_metadata_of_a_cluster_wide_object_has_no_namespace() -> None:
    """The rules of metadata also serve cluster-scoped objects."""
    errors = metadata_errors({"name": "a", "namespace": "b"}, namespaced=False)
    assert [str(error) for error in errors] == ["metadata.namespace: Forbidden: not allowed on this type"]
    assert metadata_errors({"name": "a", "managedFields": [{"operation": "Apply"}]}, namespaced=False) == []


@pytest.mark.parametrize(
    ("text", "quoted", "as_json"),
    [
        ('a"\\\n', r'"a\"\\\n"', r'"a\"\\\n"'),
        ("\x01\x7f", r'"\x01\x7f"', '"\\u0001\x7f"'),
        ("é\u200b\U000e0001", '"é\\u200b\\U000e0001"', '"é\u200b\U000e0001"'),
        ("<&>\u2028", '"<&>\\u2028"', r'"\u003c\u0026\u003e\u2028"'),
    ],
)
def test_texts_are_written_as_go_writes_them(text: str, quoted: str, as_json: str) -> None:
    assert (go_quote(text), go_json(text)) == (quoted, as_json)


@pytest.mark.parametrize(
    ("spec", "container", "expected"),
    [
        pytest.param(
            {"restartPolicy": "Never"},
            {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
            ["containers[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when `restartPolicy` is 'Never'"],
            id="resize of a pod that never restarts",
        ),
        pytest.param(
            {"os": {"name": "windows"}},
            {"lifecycle": {"stopSignal": "SIGHUP"}, "securityContext": {"privileged": False}},
            [
                'containers[0].lifecycle.stopSignal: Unsupported value: "SIGHUP": supported values: "SIGKILL", "SIGTERM"',
                "containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
            ],
            id="windows container",
        ),
        pytest.param({"os": {"name": "linux"}}, {"lifecycle": {"stopSignal": "SIGRTMIN+3"}}, [], id="linux signal"),
        pytest.param(
            {"hostUsers": False, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            {"volumeDevices": [{"name": "v", "devicePath": "/x"}], "securityContext": {"procMount": "Unmasked"}},
            ["containers[0].volumeDevices: Forbidden: when `hostUsers` is false"],
            id="devices in a user namespace",
        ),
        pytest.param(
            {"dnsConfig": {"searches": ["a"] * 33 + ["b" * 250] * 9}},
            {},
            [
                f"dnsConfig.searches: Invalid value: {go_json(['a'] * 33 + ['b' * 250] * 9)}: must not have more than 32 search paths",
                f"dnsConfig.searches: Invalid value: {go_json(['a'] * 33 + ['b' * 250] * 9)}: must not have more than 2048 characters (including spaces) in the search list",
            ],
            id="many searches",
        ),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}, {}, [], id="policy None with a server"
        ),
        pytest.param(
            {"volumes": [{"name": "v", "downwardAPI": {"items": [
                {"path": "a", "fieldRef": {"fieldPath": "metadata.uid"}, "resourceFieldRef": {"resource": "limits.cpu", "containerName": "c"}},
                {"path": "b", "resourceFieldRef": {"resource": "limits.cpu"}},
                {"path": "c", "resourceFieldRef": {"containerName": "c"}},
            ]}}]},
            {},
            [
                'volumes[0].downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified simultaneously',
                "volumes[0].downwardAPI.resourceFieldRef.containerName: Required value",
                "volumes[0].downwardAPI.resourceFieldRef.resource: Required value",
            ],
            id="downward files",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "storageos": {"volumeName": "ok", "volumeNamespace": "a.b"}}]},
            {},
            ['volumes[0].storageos.volumeNamespace: Invalid value: "a.b": must not contain dots'],
            id="storageos",
        ),
        pytest.param(
            {"resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}}},
            {"resources": {"limits": {"hugepages-2Mi": "4Mi", "hugepages-x": "1", "cpu": "1"}}},
            [
                'containers[0].resources.limits[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x',
                'containers[0].resources.requests[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x',
                'resources.limits[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x',
                'resources.requests[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x',
                'resources.requests[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate container requests of 4Mi',
                'resources.limits[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate container limits of 4Mi',
                'resources.containers[0][hugepages-2Mi].limits: Invalid value: "4Mi": must be less than or equal to pod limits of 2Mi',
            ],
            id="huge pages of a pod",
        ),
        pytest.param(
            {"securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "A", "gmsaCredentialSpec": "x" * 65537, "runAsUserName": "a" * 256 + "\\" + "u" * 105}}},
            {},
            [
                f'securityContext.windowsOptions.gmsaCredentialSpecName: Invalid value: "A": {_SUBDOMAIN}',
                f'securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "{"x" * 65537}": gmsaCredentialSpec size must be under 64 KiB',
                *(
                    f'securityContext.windowsOptions.runAsUserName: Invalid value: "{"a" * 256}\\\\{"u" * 105}": {text}'
                    for text in (
                        "runAsUserName's Domain length must be under 256 characters",
                        "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
                        "runAsUserName's User length must not be longer than 104 characters",
                    )
                ),
            ],
            id="windows names",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}]},
            {},
            ["topologySpreadConstraints[0].labelSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
            id="selector with values",
        ),
    ],
)  # fmt: skip
def test_rare_rule_is_kept_with_upstreams_words(
    messages: Messages, spec: dict[str, Any], container: dict[str, Any], expected: list[str]
) -> None:
    assert messages(spec, container=container) == [f"spec.{text}" for text in expected]


def test_kubelet_is_stricter_with_searches_and_ignores_pod_resources(messages: Messages) -> None:
    """All its options are off, so it does not validate the resources of the whole pod."""
    spec = {"dnsConfig": {"searches": ["."]}, "resources": {"limits": {"disk": "1"}}, "hostNetwork": True}
    assert messages(spec, options=KUBELET_OPTIONS) == [f'spec.dnsConfig.searches[0]: Invalid value: "": {_SUBDOMAIN}']


@pytest.mark.parametrize("text", ["{", "1", "[1]"])
def test_tolerations_annotation_must_be_a_list_of_objects(messages: Messages, text: str) -> None:
    annotations = {"scheduler.alpha.kubernetes.io/tolerations": text}
    (message,) = messages(metadata={"annotations": annotations})
    assert message.startswith('metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": ')


@pytest.mark.parametrize(
    ("annotation", "profile", "expected"),
    [
        pytest.param("runtime/default", {"type": "Localhost", "localhostProfile": "x"}, ["type"], id="other type"),
        pytest.param("unconfined", {"type": "Unconfined"}, [], id="same type"),
        pytest.param("docker/default", {"type": "RuntimeDefault"}, [], id="old word"),
        pytest.param("localhost/x", {"type": "Localhost", "localhostProfile": "x"}, [], id="same profile"),
    ],
)
def test_seccomp_annotation_is_compared_with_the_field(
    messages: Messages, annotation: str, profile: dict[str, Any], expected: list[str]
) -> None:
    metadata = {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": annotation}}
    assert messages({"securityContext": {"seccompProfile": profile}}, metadata=metadata) == [
        f"spec.securityContext.seccompProfile.{name}: Forbidden: seccomp type in annotation and field must match" for name in expected
    ]  # fmt: skip


def test_apparmor_is_not_compared_on_windows_and_needs_a_name(messages: Messages) -> None:
    """A pod for Windows gets an error for the profile itself instead."""
    metadata = {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}
    context = {"securityContext": {"appArmorProfile": {"type": "Localhost"}}}
    assert messages({**context, "os": {"name": "windows"}}, metadata=metadata) == [
        "spec.securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost",
        "spec.securityContext.appArmorProfile: Forbidden: cannot be set for a windows pod",
    ]


def test_signer_name_has_length_limits(messages: Messages) -> None:
    """The domain has a limit of its own, and so has the whole name."""
    label = "a" * 63
    signer = f"{'.'.join([label] * 4)}/{'.'.join(['b' * 60] * 6)}"
    bundle = {"clusterTrustBundle": {"signerName": signer, "path": "p"}}
    at = "spec.volumes[0].projected.sources[0].clusterTrustBundle.signerName"
    assert messages({"volumes": [{"name": "v", "projected": {"sources": [bundle]}}]}) == [
        f"{at}: Too long: may not be more than 253 bytes",
        f"{at}: Too long: may not be more than 571 bytes",
    ]
