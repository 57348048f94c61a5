"""A new pod and the runtime class it names: what running it costs, and where it can run at all.

In: a pod, and its class (None if it names none). Out: the pod with the class's overhead, node selector and tolerations;
Forbidden if they do not go together.

Upstream: plugin/pkg/admission/runtimeclass/admission.go, pkg/util/tolerations/tolerations.go
"""

from typing import Any

from pykubelet.api.errors import Forbidden
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.resources import PODS
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.wire import Document
from pykubelet.apiserver.failures import forbidden

Toleration = dict[str, Any]


def with_runtime_class(pod: Document, runtime_class: Document | None) -> Document:
    """The pod as its class wants it."""
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
        changes["tolerations"] = merged_tolerations(
            [*spec.get("tolerations", ()), *scheduling.get("tolerations", ())],
        )
    filled = {name: value for name, value in changes.items() if value}
    return {**pod, "spec": {**spec, **filled}} if filled else pod


def missing_runtime_class(pod: Document) -> Forbidden:
    """The refusal of a pod that names a runtime class which does not exist."""
    return _forbidden(pod, f"pod rejected: RuntimeClass {go_quote(pod['spec']['runtimeClassName'])} not found")


def merged_tolerations(tolerations: list[Toleration]) -> list[Toleration]:
    """The tolerations without those that others include; of equal ones the first."""
    merged: list[Toleration] = []
    for index, each in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != each)
        if not any(_includes(other, each) for other in (*merged, *later)):
            merged.append(each)
    return merged


def _includes(outer: Toleration, inner: Toleration) -> bool:
    """Whether what `inner` tolerates, `outer` tolerates as well."""
    if outer == inner:
        return True
    operator = outer.get("operator", "Equal")
    if inner.get("key") != outer.get("key") and (outer.get("key") or operator != "Exists"):
        return False
    if outer.get("effect") not in (None, "", inner.get("effect")):
        return False
    limit, asked = outer.get("tolerationSeconds"), inner.get("tolerationSeconds")
    if outer.get("effect") == "NoExecute" and limit is not None and (asked is None or asked > limit):
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


def _forbidden(pod: Document, why: str) -> Forbidden:
    return forbidden(PODS, pod["metadata"].get("name", ""), why)
