"""The admission plugin PodSecurity: rejects pods that violate the level of their namespace, and warns.

Workloads are never rejected; their templates cause warnings. A namespace whose enforced level gets stricter returns
warnings about the pods that it has. There are no exemptions and no defaults but the labels.

Upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go,
plugin/pkg/admission/security/podsecurity/admission.go
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from pykubelet.api.field_errors import aggregate_text, go_quote
from pykubelet.api.schema import NAMESPACES, PODS
from pykubelet.api.serializer import Document, decode
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.podsecurity.baseline import BASELINE
from pykubelet.apiserver.admission.podsecurity.checks import CheckPod, SecurityFinding, checks_at
from pykubelet.apiserver.admission.podsecurity.policy import (
    PREFIX,
    LevelVersion,
    PodSecurityLevel,
    PodSecurityPolicy,
    policy_of,
)
from pykubelet.apiserver.admission.podsecurity.restricted import RESTRICTED
from pykubelet.apiserver.errors import forbidden, invalid_object
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

MAX_EXISTING_PODS = 1000
"""Pods that are checked when a namespace becomes stricter: what takes 50 ms, during which the server does nothing else."""
_IGNORED_SUBRESOURCES = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
_RESOURCES = frozenset(
    {
        "namespaces",
        "pods",
        "replicationcontrollers",
        "podtemplates",
        "replicasets.apps",
        "deployments.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
    }
)
_LAST_CHANGE = max(one.since[-1][0] for one in (*BASELINE, *RESTRICTED))


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool = False


class _OwnedMeta(msgspec.Struct, rename="camel"):
    owner_references: tuple[_Owner, ...] = ()


class _OwnedPod(msgspec.Struct):
    """The fields of a pod that say which controller it belongs to."""

    metadata: _OwnedMeta


class PodSecurity:
    """The plugin. `newest` returns the newest entry of a key, `pods` the pods of a namespace."""

    def __init__(
        self, newest: Callable[[StoreKey], StoreEntry | None], pods: Callable[[str], Sequence[StoreEntry]]
    ) -> None:
        self._newest, self._pods = newest, pods

    def validate(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> None:
        """Raises Forbidden for a pod that violates the enforced level, Invalid for wrong labels of a namespace."""
        resource = attributes.served.resource.group_resource
        if new is None or resource not in _RESOURCES:
            return
        if resource == NAMESPACES.group_resource:
            if not attributes.subresource:
                self._validate_namespace(attributes, new, old)
            return
        policy = self._policy(attributes.namespace)
        if policy is None:
            return
        if resource != PODS.group_resource:
            template = pod_template(new)
            if not attributes.subresource and template is not None:
                _report(attributes, policy, template)
        elif attributes.subresource not in _IGNORED_SUBRESOURCES and (old is None or changes_images(new, old)):
            attributes.annotate(f"{PREFIX}enforce-policy", str(policy.enforce))
            if found := findings(policy.enforce, new):
                _audit(attributes, policy, new)
                raise forbidden(PODS, attributes.name, f"violates PodSecurity {_detailed(policy.enforce, found)}")
            _report(attributes, policy, new)

    def _policy(self, namespace: str) -> PodSecurityPolicy | None:
        """The policy of a namespace; None if no label chooses one."""
        entry = self._newest(StoreKey(NAMESPACES.group_resource, "", namespace))
        # Few namespaces have these labels; the text tells without decoding the others.
        if entry is None or PREFIX.encode() not in entry.text:
            return None
        return policy_of(entry.document["metadata"].get("labels") or {})

    def _validate_namespace(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        policy, before = (policy_of((one or {}).get("metadata", {}).get("labels") or {}) for one in (new, old))
        if policy.errors and policy.errors != before.errors:
            raise invalid_object(NAMESPACES, attributes.name, policy.errors)
        enforce, enforced = policy.enforce, before.enforce
        is_relaxed = enforce.minor == enforced.minor and enforce.level.strictness <= enforced.level.strictness
        if old is not None and enforce.level is not PodSecurityLevel.PRIVILEGED and not is_relaxed:
            for warning in existing_pods_warnings(attributes.name, enforce, self._pods(attributes.name)):
                attributes.warn(warning)


def _audit(attributes: AdmissionAttributes, policy: PodSecurityPolicy, pod: Document) -> None:
    """Annotates the request with the violations of the audited level, and with labels that cannot be read."""
    if policy.errors:
        problems = aggregate_text(policy.errors)
        attributes.annotate(f"{PREFIX}error", f"Failed to parse policy: {problems}")
    if found := findings(policy.audit, pod):
        attributes.annotate(f"{PREFIX}audit-violations", f"would violate PodSecurity {_detailed(policy.audit, found)}")


def _report(attributes: AdmissionAttributes, policy: PodSecurityPolicy, pod: Document) -> None:
    """Reports the violations of a write that is not rejected, to the audit log and its sender."""
    _audit(attributes, policy, pod)
    if found := findings(policy.warn, pod):
        attributes.warn(f"would violate PodSecurity {_detailed(policy.warn, found)}")


def _detailed(level: LevelVersion, found: Iterable[SecurityFinding]) -> str:
    return f"{go_quote(str(level))}: {', '.join(map(str, found))}"


def findings(wanted: LevelVersion, pod: Document) -> list[SecurityFinding]:
    """How a pod or pod template violates a level, in the order of messages."""
    checks = _checks(wanted.level, _LAST_CHANGE if wanted.minor is None else min(wanted.minor, _LAST_CHANGE))
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    return [found for check in checks if (found := check(metadata, spec)) is not None]


@lru_cache
def _checks(level: PodSecurityLevel, minor: int) -> tuple[CheckPod, ...]:
    if level is PodSecurityLevel.PRIVILEGED:
        return ()
    return tuple(checks_at(BASELINE, RESTRICTED if level is PodSecurityLevel.RESTRICTED else (), minor))


def pod_template(workload: Document) -> Document | None:
    """The template of a workload's pods; None if it has none."""
    if "template" in workload:
        found: Document | None = workload["template"]
        return found
    spec = workload.get("spec") or {}
    template: Document | None = ((spec.get("jobTemplate") or {}).get("spec") or spec).get("template")
    return template


def changes_images(new: Document, old: Document) -> bool:
    """Whether an update of a pod adds containers or changes images; what else it may change violates no level."""
    after, before = new["spec"], old["spec"]
    for field in ("containers", "initContainers"):
        if _images(after.get(field)) != _images(before.get(field)):
            return True
    known = {one["name"]: one.get("image", "") for one in before.get("ephemeralContainers") or ()}
    return any(known.get(one["name"]) != one.get("image", "") for one in after.get("ephemeralContainers") or ())


def _images(containers: Sequence[Document] | None) -> list[str]:
    return [container.get("image", "") for container in containers or ()]


def existing_pods_warnings(namespace: str, enforce: LevelVersion, pods: Sequence[StoreEntry]) -> list[str]:
    """Warnings about the pods that violate a level to be enforced, one of each controller first."""
    counts: dict[str, list[str]] = {}
    for entry in islice(_one_of_each_controller(pods), MAX_EXISTING_PODS):
        if found := findings(enforce, entry.document):
            counts.setdefault(", ".join(one.reason for one in found), []).append(entry.key.name)
    warnings: list[str] = []
    if len(pods) > MAX_EXISTING_PODS:
        what = f"the first {MAX_EXISTING_PODS} of {len(pods)} existing pods"
        warnings.append(f"new PodSecurity enforce level only checked against {what}")
    if counts:
        level = go_quote(str(enforce))
        warnings.append(
            f"existing pods in namespace {go_quote(namespace)} violate the new PodSecurity enforce level {level}"
        )
    return warnings + sorted(f"{_pods_shown(names)}: {reasons}" for reasons, names in counts.items())


def _pods_shown(names: list[str]) -> str:
    others = len(names) - 1
    return f"{min(names)} (and {others} other pod{'s' * (others > 1)})" if others else names[0]


def _one_of_each_controller(pods: Sequence[StoreEntry]) -> list[StoreEntry]:
    """The pods in order, further ones of the same controller last."""
    seen: set[str] = set()
    first: list[StoreEntry] = []
    further: list[StoreEntry] = []
    for entry in pods:
        owners = decode(entry.text, _OwnedPod).metadata.owner_references
        controller = next((owner.uid for owner in owners if owner.controller), "")
        (further if controller in seen else first).append(entry)
        seen |= {controller} - {""}
    return first + further
