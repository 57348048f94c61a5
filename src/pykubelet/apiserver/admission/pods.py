"""Pod admission: default tolerations, priority, and the fields that a runtime class sets.

Upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go, plugin/pkg/admission/priority/admission.go,
plugin/pkg/admission/runtimeclass/admission.go, pkg/util/tolerations/tolerations.go
"""

from collections.abc import Callable, Sequence
from typing import Any

from pykubelet.api.errors import Forbidden
from pykubelet.api.field_errors import go_quote
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import PODS, PRIORITY_CLASSES, RUNTIME_CLASSES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.errors import forbidden
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

# A node that returns within this time keeps its pods.
_TOLERATION_SECONDS = 300
# Comparing each of so many tolerations with each other takes 0.1 s.
_MAX_COMPARED = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_CLASS: Document = {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
_PRIORITY_FIELDS = ("priority", "preemptionPolicy")
Toleration = dict[str, Any]


class PriorityAndTolerations:
    """Sets default tolerations and the priority of a pod's class; allows one default class.

    `priority_classes` returns all priority classes.
    """

    resources = frozenset({PODS.group_resource})

    def __init__(self, priority_classes: Callable[[], Sequence[StoreEntry]]) -> None:
        self._priority_classes = priority_classes

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        if new is None or attributes.subresource:
            return new
        tolerant = with_default_tolerations(new)
        return self._with_priority(tolerant) if old is None else with_old_priority(tolerant, old)

    def _with_priority(self, pod: Document) -> Document:
        name = pod["spec"].get("priorityClassName", "")
        if name:
            found = next((entry for entry in self._priority_classes() if entry.key.name == name), None)
            if found is None:
                raise _forbidden(pod, f"no PriorityClass with name {name} was found")
            return with_priority(pod, found.document)
        return with_priority(pod, self._default_class())

    def _default_class(self) -> Document | None:
        """The global default; of several the one with the lowest priority."""
        # Few classes are a global default; the text tells without decoding the others.
        marked = [entry.document for entry in self._priority_classes() if b'"globalDefault":true' in entry.text]
        defaults = [each for each in marked if each.get("globalDefault")]
        return min(defaults, key=lambda each: int(each["value"]), default=None)

    def validate(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> None:
        """Raises Forbidden if a priority class becomes the default although another one is."""
        resource = attributes.served.resource
        if new is None or resource.group_resource != PRIORITY_CLASSES.group_resource or not new.get("globalDefault"):
            return
        default = self._default_class()
        if default is not None and (old is None or default["metadata"]["name"] != attributes.name):
            name = default["metadata"]["name"]
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise forbidden(resource, attributes.name, why)


class RuntimeClassAdmission:
    """Sets a new pod's overhead and scheduling from its runtime class. `newest` returns the newest entry of a key."""

    resources = frozenset({PODS.group_resource})

    def __init__(self, newest: Callable[[StoreKey], StoreEntry | None]) -> None:
        self._newest = newest

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        if new is None or old is not None or attributes.subresource:
            return new
        name = new["spec"].get("runtimeClassName")
        if name is None:
            return with_runtime_class(new, None)
        found = self._newest(StoreKey(RUNTIME_CLASSES.group_resource, "", name))
        if found is None:
            raise _forbidden(new, f"pod rejected: RuntimeClass {go_quote(name)} not found")
        return with_runtime_class(new, found.document)


def with_default_tolerations(pod: Document) -> Document:
    """Adds the tolerations for not-ready and unreachable nodes, unless the pod has its own."""
    tolerations = pod["spec"].get("tolerations", ())
    ours = [each for each in tolerations if each.get("effect", "NoExecute") == "NoExecute"]
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for taint in _TAINTS
        if not any(each.get("key", taint) == taint for each in ours)
    ]
    return {**pod, "spec": {**pod["spec"], "tolerations": [*tolerations, *added]}} if added else pod


def with_priority(pod: Document, priority_class: Document | None) -> Document:
    """Sets the priority of a new pod from its class: the named one, the global default, or None without either."""
    spec = pod["spec"]
    known = _NO_CLASS if priority_class is None else priority_class
    priority, policy = known["value"], known.get("preemptionPolicy")
    if spec.get("priority", priority) != priority:
        text = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        raise _forbidden(pod, text)
    changed: Document = {"priority": priority}
    if policy is not None:
        if spec.get("preemptionPolicy", policy) != policy:
            text = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            raise _forbidden(pod, text)
        changed["preemptionPolicy"] = policy
    if priority_class is not None:
        changed["priorityClassName"] = priority_class["metadata"]["name"]
    return {**pod, "spec": {**spec, **changed}}


def with_old_priority(new: Document, old: Document) -> Document:
    """Restores the priority in an update by a client that omitted it."""
    kept = {name: old["spec"][name] for name in _PRIORITY_FIELDS if name in old["spec"] and name not in new["spec"]}
    return {**new, "spec": {**new["spec"], **kept}} if kept else new


def _forbidden(pod: Document, why: str) -> Forbidden:
    return forbidden(PODS, pod["metadata"].get("name", ""), why)


def with_runtime_class(pod: Document, runtime_class: Document | None) -> Document:
    """Sets the overhead, node selector and tolerations of the pod's runtime class; Forbidden if they conflict."""
    spec, wanted = pod["spec"], runtime_class or {}
    overhead = wanted.get("overhead")
    if overhead is None and spec.get("overhead") is not None:
        raise _forbidden(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    changes: Document = {}
    if overhead is not None:
        fixed = overhead.get("podFixed", {})
        if spec.get("overhead") and _amounts(spec["overhead"]) != _amounts(fixed):
            raise _forbidden(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        changes["overhead"] = fixed
    if scheduling := wanted.get("scheduling"):
        changes["nodeSelector"] = _node_selector(pod, scheduling.get("nodeSelector", {}))
        own = spec.get("tolerations", ())
        changes["tolerations"] = merged_tolerations([*own, *scheduling.get("tolerations", ())])
    filled = {name: value for name, value in changes.items() if value}
    return {**pod, "spec": {**spec, **filled}} if filled else pod


def merged_tolerations(tolerations: list[Toleration]) -> list[Toleration]:
    """Removes tolerations that others include; of equal ones the first stays.

    Of a list that is too long to compare each with each, only equal ones are removed.
    """
    if len(tolerations) > _MAX_COMPARED:
        return list({frozenset(each.items()): each for each in tolerations}.values())
    merged: list[Toleration] = []
    for index, each in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != each)
        if not any(_includes(other, each) for other in (*merged, *later)):
            merged.append(each)
    return merged


def _includes(outer: Toleration, inner: Toleration) -> bool:
    """Whether `outer` tolerates everything that `inner` tolerates."""
    if outer == inner:
        return True
    operator = outer.get("operator", "Equal")
    if inner.get("key") != outer.get("key") and (outer.get("key") or operator != "Exists"):
        return False
    if outer.get("effect") not in (None, "", inner.get("effect")):
        return False
    limit, requested = outer.get("tolerationSeconds"), inner.get("tolerationSeconds")
    if outer.get("effect") == "NoExecute" and limit is not None and (requested is None or requested > limit):
        return False
    return operator == "Exists" or (
        inner.get("operator") == "Equal" and inner.get("value", "") == outer.get("value", "")
    )


def _node_selector(pod: Document, wanted: dict[str, str]) -> dict[str, str]:
    own = pod["spec"].get("nodeSelector", {})
    for key, value in wanted.items():
        if key in own and own[key] != value:
            why = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own[key]}"
            raise _forbidden(pod, f"conflict: {why}")
    return {**own, **wanted}


def _amounts(resources: dict[str, Any]) -> dict[str, Any]:
    return {name: parse_quantity(str(amount)) for name, amount in resources.items()}
