"""Binds a pod to a node, through pods/binding or the older bindings collection.

Upstream: pkg/registry/core/pod/storage/storage.go
"""

from dataclasses import replace

from pykubelet.api.errors import BadRequest, Conflict
from pykubelet.api.field_errors import FieldError, aggregate_text, go_quote, not_supported, required
from pykubelet.api.schema import PODS
from pykubelet.api.serializer import Document
from pykubelet.apiserver import errors
from pykubelet.apiserver.admission.plugin.webhook.reviews import reviewed
from pykubelet.apiserver.handlers.options import write_options
from pykubelet.apiserver.handlers.write import RequestScope, WriteRequest, in_namespace, with_metadata
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decoder import ExpectedKind, decode_in_thread, read_object, warnings_of
from pykubelet.apiserver.storage.codec import in_order
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

BINDING = ExpectedKind("v1", "Binding", "core.v1.Binding")
CREATED: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind_pod(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    """Binds the pod to the node that the Binding in the body names."""
    write = WriteRequest(scope, request, write_options(request.query, "CreateOptions"))
    binding, problems = await decode_in_thread(request, read_object, request.body, request.content_type, BINDING)
    write.warn(*warnings_of(problems, write.options.field_validation, BINDING))
    binding = in_namespace(binding, request.namespace)
    name = request.name or binding["metadata"].get("name", "")
    if name != binding["metadata"].get("name", ""):
        raise BadRequest("name in URL does not match name in Binding object")
    if not request.name:
        # The older collection has the pod's name in the body only.
        write = replace(write, request=replace(request, name=name))

    def decide(existing: StoreEntry | None) -> Document:
        admitted = write.admit("create", name, binding, None)
        assert admitted is not None
        check_binding(admitted)
        write.validate("create", name, admitted, None)
        if existing is None:
            raise errors.not_found(PODS, name)
        return in_order(assign_node(existing.document, admitted, scope.now()))

    key = StoreKey(PODS.group_resource, request.namespace, name)

    async def bound() -> None:
        if write.options.dry_run:
            decide(scope.store.newest(key))
        else:
            await scope.store.write(key, decide)

    await reviewed(bound)
    return ApiResponse(body=CREATED, code=201)


def assign_node(pod: Document, binding: Document, now: str) -> Document:
    """Assigns the pod to the Binding's node; Conflict if the pod has a node, is being deleted, or has scheduling gates."""
    metadata, wanted = pod["metadata"], binding["metadata"]
    name, spec = metadata["name"], pod["spec"]
    if why := _failed_precondition(pod, wanted):
        raise errors.conflict(PODS, name, why)
    if metadata.get("deletionTimestamp") is not None:
        raise _binding_conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _binding_conflict(name, f"pod {name} is already assigned to node {go_quote(spec['nodeName'])}")
    if spec.get("schedulingGates"):
        raise _binding_conflict(name, f"pod {name} has non-empty .spec.schedulingGates")
    changed = with_metadata(
        pod,
        annotations={**metadata.get("annotations", {}), **(wanted.get("annotations") or {})} or None,
        labels={**metadata.get("labels", {}), **(wanted.get("labels") or {})} or None,
    )
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    condition = {"type": "PodScheduled", "status": "True"}
    return {
        **changed,
        "spec": {**spec, "nodeName": binding["target"]["name"]},
        "status": {**status, "conditions": with_condition(status.get("conditions", []), condition, now)},
    }


def check_binding(binding: Document) -> None:
    """Raises BadRequest if the Binding's target is not a node."""
    target = binding.get("target") or {}
    errors: list[FieldError] = []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        # Upstream answers 500 here because its error has no code.
        raise BadRequest(aggregate_text(errors))


def with_condition(conditions: list[Document], condition: Document, now: str) -> list[Document]:
    """Sets a condition; lastTransitionTime changes only with its status."""
    old = next((one for one in conditions if one["type"] == condition["type"]), None)
    if old is None:
        return [*conditions, {**condition, "lastProbeTime": None, "lastTransitionTime": now}]
    since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else now
    new = {**condition, "lastProbeTime": old.get("lastProbeTime"), "lastTransitionTime": since}
    return [new if one is old else one for one in conditions]


def _failed_precondition(pod: Document, wanted: Document) -> str:
    """The message for the first precondition of the Binding that the pod does not meet."""
    for name, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        expected, current = wanted.get(name), pod["metadata"][name]
        if expected and expected != current:
            return f"Precondition failed: {title} in precondition: {expected}, {title} in object meta: {current}"
    return ""


def _binding_conflict(name: str, why: str) -> Conflict:
    return errors.conflict(PODS, name, why, subresource="binding")
