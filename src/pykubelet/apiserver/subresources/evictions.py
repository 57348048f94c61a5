"""Whether a pod may be evicted now: what its disruption budget says.

In: the pod and the budgets of its namespace. Out: the budget to ask, whether it has to be asked at all, and the budget
with one disruption less; TooManyRequests or Forbidden if it allows none.

Upstream: pkg/registry/core/pod/storage/eviction.go
"""

from collections.abc import Iterable

from pykubelet.api.errors import ApiError
from pykubelet.api.resources import Resource
from pykubelet.api.selector import SelectorError, selector_from_document
from pykubelet.api.wire import Document
from pykubelet.apiserver import failures
from pykubelet.apiserver.requests.bodies import Expected
from pykubelet.apiserver.subresources.bindings import with_condition

EVICTION = Expected("policy/v1", "Eviction", "policy.v1.Eviction")
OLD_API_VERSION = "policy/v1beta1"
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
MAX_DISRUPTED_PODS = 2000
"""A budget that holds more names than this waits for its controller to look at them."""
_BUDGET = Resource("policy", "v1", "poddisruptionbudget", "PodDisruptionBudget")
_NO_DISRUPTION = frozenset({"Succeeded", "Failed", "Pending"})
_EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def disrupts_nothing(pod: Document) -> bool:
    """Whether no budget has a say: the pod does not run, or is about to end anyway."""
    return pod["status"].get("phase") in _NO_DISRUPTION or "deletionTimestamp" in pod["metadata"]


def budget_of(pod: Document, budgets: Iterable[Document]) -> Document | None:
    """The budget that protects the pod; ApiError if more than one does."""
    labels = pod["metadata"].get("labels", {})
    found = [budget for budget in budgets if _selects(budget, labels)]
    if len(found) > 1:
        # Upstream gives no reason with this one.
        raise ApiError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    return found[0] if found else None


def is_unprotected(pod: Document, budget: Document) -> bool:
    """Whether the pod is not ready and the budget does not count on it."""
    if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ())):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired: int = status.get("desiredHealthy", 0)
    current: int = status.get("currentHealthy", 0)
    return current >= desired > 0


def disrupted(budget: Document, pod_name: str, now: str) -> Document:
    """The budget with one more pod disrupted."""
    metadata, status = budget["metadata"], budget.get("status") or {}
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        cause = f"The disruption budget {name} is still being processed by the server."
        raise failures.budget_exhausted(cause, retry_after_seconds=10)
    if allowed < 0:
        raise failures.forbidden(_BUDGET, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", {})) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise failures.forbidden(_BUDGET, name, why)
    if allowed == 0:
        desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise failures.budget_exhausted(
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        )
    new = {
        **status,
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {**status.get("disruptedPods", {}), pod_name: now},
    }
    if allowed == 1:
        new["conditions"] = _exhausted(status, now)
    return {**budget, "status": new}


def marked(pod: Document, now: str) -> Document:
    """The pod with the condition that says why it ends."""
    conditions = with_condition(pod["status"].get("conditions", []), _EVICTED, now)
    return {**pod, "status": {**pod["status"], "conditions": conditions}}


def _selects(budget: Document, labels: dict[str, str]) -> bool:
    try:
        return selector_from_document(budget["spec"].get("selector")).matches(labels)
    except SelectorError:
        return False


def _exhausted(status: Document, now: str) -> list[Document]:
    conditions: list[Document] = status.get("conditions", [])
    old = next((one for one in conditions if one["type"] == "DisruptionAllowed"), None)
    since = old["lastTransitionTime"] if old is not None and old["status"] == "False" else now
    new = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": since,
        "reason": "InsufficientPods",
        "message": "",
    }
    return [new if one is old else one for one in conditions] if old is not None else [*conditions, new]
