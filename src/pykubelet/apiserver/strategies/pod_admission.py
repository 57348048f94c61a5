"""What admission adds to every pod: how long it tolerates a lost node, and its priority.

In: a pod after its defaults, on update with the stored one. Out: the pod to go on with; Forbidden if its priority does
not fit its class.

Upstream: plugin/pkg/admission/defaulttolerationseconds/admission.go, plugin/pkg/admission/priority/admission.go
"""

from pykubelet.api.errors import Forbidden
from pykubelet.api.resources import PODS
from pykubelet.api.wire import Document
from pykubelet.apiserver.failures import forbidden

# A node that is back within this time finds its pods as they were.
_TOLERATION_SECONDS = 300
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_CLASS: Document = {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
_PRIORITY_FIELDS = ("priority", "preemptionPolicy")


def with_default_tolerations(pod: Document) -> Document:
    """The pod with tolerations of lost nodes, where it says nothing about them."""
    tolerations = pod["spec"].get("tolerations", ())
    ours = [each for each in tolerations if each.get("effect", "NoExecute") == "NoExecute"]
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for taint in _TAINTS
        if not any(each.get("key", taint) == taint for each in ours)
    ]
    return {**pod, "spec": {**pod["spec"], "tolerations": [*tolerations, *added]}} if added else pod


def with_priority(pod: Document, priority_class: Document | None) -> Document:
    """A new pod with the priority of its class: the one it names, or else the default of all, if there is one.

    `priority_class` is None for a pod that names none where there is no default; `missing_class` is for a name without
    a class.
    """
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
    """An update of a pod by a client that left out what admission had filled in."""
    kept = {name: old["spec"][name] for name in _PRIORITY_FIELDS if name in old["spec"] and name not in new["spec"]}
    return {**new, "spec": {**new["spec"], **kept}} if kept else new


def missing_class(pod: Document) -> Forbidden:
    """The refusal of a pod that names a priority class which does not exist."""
    return _forbidden(pod, f"no PriorityClass with name {pod['spec']['priorityClassName']} was found")


def _forbidden(pod: Document, why: str) -> Forbidden:
    return forbidden(PODS, pod["metadata"].get("name", ""), why)
