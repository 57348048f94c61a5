"""PodSecurity: policies of namespaces, the checks of each level and version, and the answers to writes."""

from typing import Any

import pytest

from pykubelet.api.errors import Forbidden, Invalid
from pykubelet.api.serializer import encode
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.podsecurity import admission
from pykubelet.apiserver.admission.podsecurity.admission import PodSecurity, findings
from pykubelet.apiserver.admission.podsecurity.policy import LevelVersion, PodSecurityLevel, policy_of
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.request import UserInfo
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from verb_requests import MERGE, Asker
from verb_requests import pod as pod_body

Body = dict[str, Any]
PRIVILEGED, BASELINE, RESTRICTED = PodSecurityLevel
NAMESPACES = "/api/v1/namespaces"
HARDENED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def labels(**modes: str) -> Body:
    return {f"pod-security.kubernetes.io/{name.replace('_', '-')}": value for name, value in modes.items()}


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ({}, "privileged:latest privileged:latest privileged:latest"),
        ({"enforce": "baseline"}, "baseline:latest privileged:latest baseline:latest"),
        ({"enforce": "baseline", "enforce_version": "v1.20"}, "baseline:v1.20 privileged:latest baseline:v1.20"),
        ({"enforce": "baseline", "warn_version": "v1.0"}, "baseline:latest privileged:latest baseline:v1.0"),
        ({"enforce": "restricted", "warn": "privileged"}, "restricted:latest privileged:latest privileged:latest"),
        ({"audit": "restricted", "audit_version": "latest"}, "privileged:latest restricted:latest privileged:latest"),
    ],
)
def test_labels_choose_the_policy(modes: dict[str, str], expected: str) -> None:
    """Warnings are as strict as what is enforced, unless labels say otherwise."""
    policy = policy_of(labels(**modes))
    assert f"{policy.enforce} {policy.audit} {policy.warn}" == expected
    assert policy.errors == ()


@pytest.mark.parametrize("version", ["1.20", "v1.01", "v2.0", "v1.99999999999999999999", ""])
def test_wrong_labels_enforce_the_strictest_policy(version: str) -> None:
    """Audit and warn are then off."""
    wrong = labels(enforce="strict", enforce_version=version, audit="x", warn="y")
    policy = policy_of(wrong)
    assert f"{policy.enforce} {policy.audit} {policy.warn}" == "restricted:latest privileged:latest privileged:latest"
    at, which = "metadata.labels[pod-security.kubernetes.io/", "must be one of privileged, baseline, restricted"
    assert [f"{error.field}: {error.body}" for error in policy.errors] == [
        f'{at}enforce]: Invalid value: "strict": {which}',
        f'{at}enforce-version]: Invalid value: "{version}": must be "latest" or "v1.x"',
        f'{at}audit]: Invalid value: "x": {which}',
        f'{at}warn]: Invalid value: "y": {which}',
    ]


def pod(annotations: Body | None = None, **spec: Any) -> Body:
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [], **spec}}


def secured(*contexts: Body, **pod_context: Any) -> Body:
    """A pod whose containers a, b and so on have these security contexts."""
    containers = [{"name": name, "securityContext": context} for name, context in zip("abc", contexts, strict=False)]
    return pod(containers=containers, securityContext=pod_context)


def found(one: Body, level: PodSecurityLevel = BASELINE, minor: int | None = None) -> str:
    return "; ".join(map(str, findings(LevelVersion(level, minor), one)))


APP_ARMOR, SECCOMP = "container.apparmor.security.beta.kubernetes.io/a", "seccomp.security.alpha.kubernetes.io/pod"
UNCONFINED, SE_USER = {"type": "Unconfined"}, {"seLinuxOptions": {"user": "u", "role": "r", "type": "spc_t"}}
PROBED = {
    "name": "a",
    "livenessProbe": {"httpGet": {"host": "h"}},
    "lifecycle": {"preStop": {"tcpSocket": {"host": "i"}}},
}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (secured({"privileged": False}, runAsUser=0), ""),
        (secured({"appArmorProfile": UNCONFINED}), 'forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")'),
        (
            {**secured({}, appArmorProfile=UNCONFINED), "metadata": {"annotations": {APP_ARMOR: "unconfined"}}},
            f'forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to "Unconfined", "{APP_ARMOR}="unconfined"")',
        ),
        (pod({APP_ARMOR: "localhost/x"}), ""),
        (
            secured({"capabilities": {"add": ["SYS_TIME", "CHOWN"]}}, {"capabilities": {"add": ["NET_RAW"]}}),
            'non-default capabilities (containers "a", "b" must not include "NET_RAW", "SYS_TIME" in securityContext.capabilities.add)',
        ),
        (pod(hostNetwork=True, hostPID=False, hostIPC=True), "host namespaces (hostNetwork=true, hostIPC=true)"),
        (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w"}]), 'hostPath volumes (volume "v")'),
        (
            pod(containers=[{"name": "a", "ports": [{"hostPort": 8080}, {"hostPort": 80}, {"hostPort": 0}]}]),
            'hostPort (container "a" uses hostPorts 80, 8080)',
        ),
        (pod(ephemeralContainers=[{"name": "e", "securityContext": {"privileged": True}}]), 'privileged (container "e" must not set securityContext.privileged=true)'),
        (pod(initContainers=[PROBED]), 'probe or lifecycle host (container "a" uses probe or lifecycle hosts "h", "i")'),
        (secured({"procMount": "Unmasked"}, {"procMount": "Default"}), 'procMount (container "a" must not set securityContext.procMount to "Unmasked")'),
        (
            secured({"seLinuxOptions": {"level": "s0"}}, **SE_USER),
            'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set)',
        ),
        (
            secured({"seLinuxOptions": {"role": "r"}}),
            'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: role may not be set)',
        ),
        (
            secured({"seccompProfile": UNCONFINED}, seccompProfile=UNCONFINED),
            'seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (secured(sysctls=[{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]), "forbidden sysctls (kernel.msgmax)"),
        (
            secured({"windowsOptions": {"hostProcess": True}}, windowsOptions={"hostProcess": True}),
            'hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)',
        ),
    ],
)  # fmt: skip
def test_baseline_level_finds_escalations(one: Body, expected: str) -> None:
    assert found(one) == expected
    assert found(one, PRIVILEGED) == ""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ""),
        (
            {"allowPrivilegeEscalation": None},
            'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)',
        ),
        (
            {"capabilities": {"drop": ["KILL"], "add": ["NET_BIND_SERVICE", "CHOWN"]}},
            (
                'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; '
                'container "a" must not include "CHOWN" in securityContext.capabilities.add)'
            ),
        ),
        (
            {"runAsNonRoot": False},
            'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)',
        ),
        (
            {"runAsNonRoot": None},
            'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
        ),
        ({"runAsUser": 0}, 'runAsUser=0 (container "a" must not set runAsUser=0)'),
        (
            {"seccompProfile": None},
            'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
        ),
        (
            {"seccompProfile": UNCONFINED},
            'seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
    ],
)
def test_restricted_level_requires_hardened_containers(change: Body, expected: str) -> None:
    """What is forbidden by the baseline level too is reported once."""
    assert found(secured({**HARDENED, **change}), RESTRICTED) == expected


def test_restricted_level_accepts_what_the_pod_sets_for_its_containers() -> None:
    """Not for a Windows pod, which cannot set these fields."""
    escalation = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert found(secured(escalation, runAsNonRoot=True, seccompProfile={"type": "Localhost"}), RESTRICTED) == ""
    windows = {**secured({}, runAsNonRoot=True)["spec"], "os": {"name": "windows"}}
    assert found({"spec": windows}, RESTRICTED) == ""
    assert "must set securityContext.capabilities" in found({"spec": windows}, RESTRICTED, 24)


def test_restricted_level_allows_some_volumes() -> None:
    """A host path is reported as a restricted volume only."""
    volumes = [{"name": "a", "hostPath": {}}, {"name": "b", "nfs": {}}, {"name": "c", "emptyDir": {}}, {"name": "d"}]
    expected = (
        'restricted volume types (volumes "a", "b", "d" use restricted volume types "hostPath", "nfs", "unknown")'
    )
    assert found(pod(volumes=volumes), RESTRICTED) == expected


@pytest.mark.parametrize(
    ("one", "level", "since"),
    [
        (pod(initContainers=[PROBED]), BASELINE, 34),
        (secured({"seccompProfile": UNCONFINED}), BASELINE, 19),
        (secured({**HARDENED, "runAsUser": 0}), RESTRICTED, 23),
        (secured({**HARDENED, "capabilities": {}}), RESTRICTED, 22),
        (secured({**HARDENED, "allowPrivilegeEscalation": True}), RESTRICTED, 8),
        (secured({**HARDENED, "seccompProfile": None}), RESTRICTED, 19),
    ],
)
def test_pod_violates_a_level_since_some_version(one: Body, level: PodSecurityLevel, since: int) -> None:
    """A version of the future is the latest one."""
    assert [minor for minor in range(36) if found(one, level, minor)] == list(range(since, 36))


@pytest.mark.parametrize(
    ("one", "until"),
    [
        (secured(sysctls=[{"name": "net.ipv4.ip_local_reserved_ports"}]), 27),
        (secured(sysctls=[{"name": "net.ipv4.tcp_fin_timeout"}]), 29),
        (secured(sysctls=[{"name": "net.ipv4.tcp_wmem"}]), 32),
        (secured(seLinuxOptions={"type": "container_engine_t"}), 31),
        (pod({SECCOMP: "unconfined"}), 19),
    ],
)
def test_pod_violates_a_level_until_some_version(one: Body, until: int) -> None:
    assert [minor for minor in range(36) if found(one, BASELINE, minor)] == list(range(until))


def test_old_versions_check_annotations_for_seccomp() -> None:
    of_container = "container.seccomp.security.alpha.kubernetes.io/a"
    one = {**secured({}), "metadata": {"annotations": {SECCOMP: "docker/default", of_container: "unconfined"}}}
    assert found(one, BASELINE, 18) == f'seccompProfile (forbidden annotation {of_container}="unconfined")'


async def label(asker: Asker, **modes: str) -> tuple[str, ...]:
    """Labels the namespace; returns the warnings."""
    return (
        await asker.answer("PATCH", f"{NAMESPACES}/default", {"metadata": {"labels": labels(**modes)}}, MERGE)
    ).warnings


PODS = f"{NAMESPACES}/default/pods"
HOST = "host namespaces (hostNetwork=true)"


async def test_pod_that_violates_the_level_is_rejected(asker: Asker) -> None:
    """A workload with such a template gets a warning; the status and labels of pods are not checked."""
    await asker.ask("POST", PODS, pod_body("old", hostNetwork=True))
    await label(asker, enforce="baseline", warn="restricted", warn_version="v1.7")
    expected = (403, f'pods "a" is forbidden: violates PodSecurity "baseline:latest": {HOST}')
    assert await asker.refused("POST", PODS, pod_body("a", hostNetwork=True)) == expected
    await asker.ask("PATCH", f"{PODS}/old", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await asker.ask("PATCH", f"{PODS}/old/status", {"status": {"reason": "r"}}, MERGE)
    image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
    strategic = "application/strategic-merge-patch+json"
    assert (await asker.refused("PATCH", f"{PODS}/old", image, strategic))[0] == 403
    warning = 'would violate PodSecurity "restricted:v1.7": '
    root = 'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)'
    assert (await asker.answer("POST", PODS, pod_body("b"))).warnings == (f"{warning}{root}",)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod_body("", hostNetwork=True)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    made = await asker.answer("POST", "/apis/apps/v1/namespaces/default/deployments", body)
    assert warning + f"{HOST}, {root}" in made.warnings
    assert made.code == 201


async def test_namespace_that_gets_stricter_warns_of_its_pods(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pod of each controller is checked first; equal problems are one warning. Wrong labels are invalid."""
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1", "controller": True}
    for name in ("a", "b"):
        body = pod_body(name, hostNetwork=True)
        await asker.ask("POST", PODS, {**body, "metadata": {"name": name, "ownerReferences": [owner]}})
    await asker.ask("POST", PODS, pod_body("c", hostPID=True))
    await asker.ask("POST", PODS, pod_body("d"))
    existing = 'existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest"'
    assert await label(asker, enforce="baseline") == (existing, "a (and 2 other pods): host namespaces")
    assert await label(asker, enforce="baseline", audit="restricted") == ()
    assert (await label(asker, enforce="baseline", enforce_version="v1.20"))[0] == existing.replace("latest", "v1.20")
    assert (await label(asker, enforce="baseline", enforce_version="latest"))[0] == existing
    assert await label(asker, enforce="privileged") == ()
    monkeypatch.setattr(admission, "MAX_EXISTING_PODS", 2)
    checked = "new PodSecurity enforce level only checked against the first 2 of 4 existing pods"
    assert await label(asker, enforce="baseline") == (checked, existing, "a (and 1 other pod): host namespaces")
    wrong = {"metadata": {"labels": labels(enforce="x")}}
    code, message = await asker.refused("PATCH", f"{NAMESPACES}/default", wrong, MERGE)
    assert (code, message.partition(":")[0]) == (422, 'Namespace "default" is invalid')
    new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels(warn="x")}}
    assert (await asker.refused("POST", NAMESPACES, new))[0] == 422


async def test_wrong_labels_of_old_namespaces_may_stay() -> None:
    """They are older than the check; a change of other labels is not refused because of them."""
    served = next(one for one in BUILT_IN_KINDS if one.resource.group_resource == "namespaces")
    write = AdmissionAttributes(user=UserInfo("u"), verb="update", served=served, namespace="n", name="n")
    plugin = PodSecurity(lambda _key: None, lambda _namespace: ())
    old = {"metadata": {"labels": labels(enforce="x")}}
    plugin.validate(write, {"metadata": {"labels": {**labels(enforce="x"), "a": "b"}}}, old)
    with pytest.raises(Invalid):
        plugin.validate(write, {"metadata": {"labels": labels(enforce="y")}}, old)


async def test_audited_level_annotates_the_request() -> None:
    """A violation is recorded whether or not the pod is rejected, with labels that cannot be read."""
    entry = StoreEntry(
        StoreKey("namespaces", "", "n"),
        1,
        encode(
            {"metadata": {"labels": labels(enforce="baseline", audit="restricted", audit_version="v1.7", warn="x")}}
        ),
    )
    served = next(one for one in BUILT_IN_KINDS if one.resource.group_resource == "pods")
    noted: dict[str, str] = {}
    write = AdmissionAttributes(
        user=UserInfo("u"), verb="create", served=served, namespace="n", name="a", annotate=noted.__setitem__
    )
    plugin = PodSecurity(lambda _key: entry, lambda _namespace: ())
    violation = 'would violate PodSecurity "restricted:v1.7": {}runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)'
    wrong = 'metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "x": must be one of privileged, baseline, restricted'
    plugin.validate(write, secured({}), None)
    expected = {
        "enforce-policy": "baseline:latest",
        "error": f"Failed to parse policy: {wrong}",
        "audit-violations": violation.format(""),
    }
    assert noted == {f"pod-security.kubernetes.io/{name}": text for name, text in expected.items()}
    one = secured({})
    one["spec"]["hostNetwork"] = True
    with pytest.raises(Forbidden):
        plugin.validate(write, one, None)
    assert noted["pod-security.kubernetes.io/audit-violations"] == violation.format(f"{HOST}, ")
