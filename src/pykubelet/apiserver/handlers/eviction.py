"""Evicts a pod: deletes it if its PodDisruptionBudget allows a disruption.

Upstream: pkg/registry/core/pod/storage/eviction.go
"""

from collections.abc import Iterable
from dataclasses import replace

from pykubelet.api.errors import ApiError, BadRequest
from pykubelet.api.labels import SelectorError, selector_from_document
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver import errors
from pykubelet.apiserver.admission.plugin.webhook.reviews import reviewed
from pykubelet.apiserver.handlers.binding import CREATED, with_condition
from pykubelet.apiserver.handlers.delete import DeleteOptions, check_preconditions, delete_object, delete_options
from pykubelet.apiserver.handlers.options import write_options
from pykubelet.apiserver.handlers.write import RequestScope, WriteRequest, in_namespace
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decoder import ExpectedKind, decode_in_thread, read_object, warnings_of
from pykubelet.apiserver.storage.codec import in_order, key_of
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

EVICTION = ExpectedKind("policy/v1", "Eviction", "policy.v1.Eviction")
OLD_API_VERSION = "policy/v1beta1"
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
MAX_DISRUPTED_PODS = 2000
"""A budget with more disrupted pods than this rejects evictions until its controller has processed them."""
_BUDGET = Resource("policy", "v1", "poddisruptionbudget", "PodDisruptionBudget")
_NO_DISRUPTION = frozenset({"Succeeded", "Failed", "Pending"})
_EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


async def evict_pod(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    write = WriteRequest(scope, request, write_options(request.query, "CreateOptions"))
    eviction = await decode_in_thread(request, _received, write)
    options = _options(eviction, write)

    async def admitted() -> None:
        new = write.admit("create", request.name, eviction, None)
        write.validate("create", request.name, new, None)

    await reviewed(admitted)
    pod = _newest(scope, request)
    if not needs_no_budget(pod):
        await _ask_budget(scope, request, pod, dry_run=options.dry_run)
    if not options.dry_run:
        options = await _marked(scope, request, options)
    await delete_object(scope, replace(request, verb="delete", subresource=""), options, admit=False)
    return ApiResponse(body=CREATED, code=201)


def needs_no_budget(pod: Document) -> bool:
    """Whether an eviction needs no budget (canIgnorePDB): the pod does not run, or is already being deleted."""
    return pod["status"].get("phase") in _NO_DISRUPTION or "deletionTimestamp" in pod["metadata"]


def budget_of(pod: Document, budgets: Iterable[Document]) -> Document | None:
    """The budget that selects the pod; raises ApiError if several do."""
    labels = pod["metadata"].get("labels", {})
    found = [budget for budget in budgets if _selects(budget, labels)]
    if len(found) > 1:
        # Upstream sends no reason with this error.
        raise ApiError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    return found[0] if found else None


def may_evict_unready(pod: Document, budget: Document) -> bool:
    """Whether the budget's unhealthyPodEvictionPolicy lets this unready pod go."""
    if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ())):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired: int = status.get("desiredHealthy", 0)
    current: int = status.get("currentHealthy", 0)
    return current >= desired > 0


def record_disruption(budget: Document, pod_name: str, now: str) -> Document:
    """Records one more disrupted pod in the budget's status (checkAndDecrement).

    Raises TooManyRequests or Forbidden if the budget allows no further disruption.
    """
    metadata, status = budget["metadata"], budget.get("status") or {}
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        cause = f"The disruption budget {name} is still being processed by the server."
        raise errors.budget_exhausted(cause, retry_after_seconds=10)
    if allowed < 0:
        raise errors.forbidden(_BUDGET, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", {})) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden(_BUDGET, name, why)
    if allowed == 0:
        desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise errors.budget_exhausted(
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


def _received(write: WriteRequest) -> Document:
    request = write.request
    body = request.body.replace(OLD_API_VERSION.encode(), EVICTION.api_version.encode(), 1)
    eviction, problems = read_object(body, request.content_type, EVICTION)
    write.warn(*warnings_of(problems, write.options.field_validation, EVICTION))
    if request.name != eviction["metadata"].get("name", ""):
        raise BadRequest("name in URL does not match name in Eviction object")
    return in_namespace(eviction, request.namespace)


def _options(eviction: Document, write: WriteRequest) -> DeleteOptions:
    stated = eviction.get("deleteOptions")
    options = delete_options(encode(stated), "", {}) if stated else DeleteOptions()
    return replace(options, dry_run=options.dry_run or write.options.dry_run)


def _newest(scope: RequestScope, request: ApiRequest) -> Document:
    entry = scope.store.newest(key_of(request.served, request.namespace, request.name))
    if entry is None:
        raise errors.not_found(request.served.resource, request.name)
    return entry.document


async def _ask_budget(scope: RequestScope, request: ApiRequest, pod: Document, *, dry_run: bool) -> None:
    """Records the disruption in the pod's budget; raises TooManyRequests if the budget allows none."""
    listed = scope.store.list(BUDGETS.group_resource, request.namespace).entries
    budget = budget_of(pod, (entry.document for entry in listed))
    if budget is None or may_evict_unready(pod, budget):
        return

    def decide(existing: StoreEntry | None) -> Document | None:
        if existing is None:
            return None
        return in_order(record_disruption(existing.document, request.name, scope.now()))

    key = StoreKey(BUDGETS.group_resource, request.namespace, budget["metadata"]["name"])
    if dry_run:
        decide(scope.store.newest(key))
    else:
        await scope.store.write(key, decide)


async def _marked(scope: RequestScope, request: ApiRequest, options: DeleteOptions) -> DeleteOptions:
    """Writes the DisruptionTarget condition; a resourceVersion precondition moves on to the revision of this write."""

    def decide(existing: StoreEntry | None) -> Document:
        if existing is None:
            raise errors.not_found(request.served.resource, request.name)
        pod = existing.document
        check_preconditions(options, pod, request.served)
        conditions = with_condition(pod["status"].get("conditions", []), _EVICTED, scope.now())
        return in_order({**pod, "status": {**pod["status"], "conditions": conditions}})

    entry = await scope.store.write(key_of(request.served, request.namespace, request.name), decide)
    assert entry is not None
    return options if options.resource_version is None else replace(options, resource_version=str(entry.revision))
