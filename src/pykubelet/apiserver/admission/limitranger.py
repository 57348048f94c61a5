"""LimitRanger: default resources of new pods, and the limits of pods and claims of a namespace.

Upstream: plugin/pkg/admission/limitranger/admission.go, plugin/pkg/admission/limitranger/interfaces.go
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from pykubelet.api.field_errors import aggregate_messages
from pykubelet.api.pod_resources import container_sums
from pykubelet.api.quantity import MAX_INT64, Quantity, parse_quantity
from pykubelet.api.schema import PERSISTENT_VOLUME_CLAIMS, PODS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.errors import forbidden
from pykubelet.apiserver.storage.interfaces import StoreEntry

ANNOTATION = "kubernetes.io/limit-ranger"
_MAX_MILLI_VALUE = MAX_INT64 // 1000
_NOTHING = Quantity()
_POD_LEVEL = ("cpu", "memory")
_CONTAINERS = (("containers", "container"), ("initContainers", "init container"))
Amounts = Mapping[str, Quantity]


class LimitRanger:
    """The admission plugin. `limit_ranges` returns the limit ranges of a namespace."""

    resources = frozenset({PODS.group_resource, PERSISTENT_VOLUME_CLAIMS.group_resource})

    def __init__(self, limit_ranges: Callable[[str], Sequence[StoreEntry]]) -> None:
        self._limit_ranges = limit_ranges

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        """Sets what containers do not state."""
        if new is not None and attributes.served.resource.group_resource == PODS.group_resource:
            for limits in self._limits(attributes, old):
                new = with_default_resources(new, limits)
        return new

    def validate(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> None:
        """Raises Forbidden if the object is outside the limits."""
        resource = attributes.served.resource
        if new is None or resource.group_resource not in self.resources:
            return
        check = pod_problems if resource.group_resource == PODS.group_resource else claim_problems
        for limits in self._limits(attributes, old):
            if problems := list(check(new, limits)):
                raise forbidden(resource, attributes.name, aggregate_messages(problems))

    def _limits(self, attributes: AdmissionAttributes, old: Document | None) -> Iterator[list[Document]]:
        """The limits of each limit range that a write is subject to."""
        is_pod = attributes.served.resource.group_resource == PODS.group_resource
        # Other updates of pods cannot change resources.
        subresource = "resize" if is_pod and old is not None else ""
        is_ending = old is not None and old["metadata"].get("deletionTimestamp") is not None
        if attributes.subresource == subresource and not is_ending:
            for entry in self._limit_ranges(attributes.namespace):
                yield entry.document["spec"].get("limits") or []


def with_default_resources(pod: Document, limits: Sequence[Document]) -> Document:
    """Sets the requests and limits that containers do not state, and lists them in an annotation."""
    defaults: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for limit in limits:
        if limit["type"] == "Container":
            defaults["requests"] |= limit.get("defaultRequest") or {}
            defaults["limits"] |= limit.get("default") or {}
    spec, notes = dict(pod["spec"]), list[str]()
    for field, title in _CONTAINERS:
        if field in spec:
            spec[field] = [_with_defaults(container, defaults, title, notes) for container in spec[field]]
    if not notes:
        return pod
    metadata = pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _with_defaults(container: Document, defaults: Document, title: str, notes: list[str]) -> Document:
    """The container with the defaults that it lacks; appends to the notes."""
    resources = dict(container.get("resources") or {})
    for side, given in defaults.items():
        if missing := {name: amount for name, amount in given.items() if name not in (resources.get(side) or {})}:
            resources[side] = {**(resources.get(side) or {}), **missing}
            notes.append(f"{', '.join(sorted(missing))} {side.removesuffix('s')} for {title} {container['name']}")
    return {**container, "resources": resources}


def pod_problems(pod: Document, limits: Sequence[Document]) -> Iterator[str]:
    """How a pod violates the limits of one limit range."""
    spec = pod["spec"]
    for limit in limits:
        if limit["type"] == "Container":
            for field, _ in _CONTAINERS:
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    yield from _violations(limit, _amounts(resources, "requests"), _amounts(resources, "limits"))
        elif limit["type"] == "Pod":
            yield from _violations(limit, _pod_amounts(spec, "requests"), _pod_amounts(spec, "limits"))


def claim_problems(claim: Document, limits: Sequence[Document]) -> Iterator[str]:
    """How a claim violates the limits of one limit range; only its request counts."""
    requests = _amounts(claim["spec"].get("resources") or {}, "requests")
    for limit in limits:
        if limit["type"] == "PersistentVolumeClaim":
            for name, least in _amounts(limit, "min").items():
                yield from _below(_subject("minimum", name, limit, least), least, requests.get(name), None)
            for name, most in _amounts(limit, "max").items():
                subject, request = _subject("maximum", name, limit, most), requests.get(name)
                if request is None:
                    yield f"{subject}.  No request is specified"
                elif _values(request, _NOTHING, most)[0] > _values(request, _NOTHING, most)[2]:
                    yield f"{subject}, but request is {request}"


def _amounts(document: Document, side: str) -> Amounts:
    return {name: parse_quantity(text) for name, text in (document.get(side) or {}).items()}


def _pod_amounts(spec: Document, side: str) -> Amounts:
    """The requests or limits of the pod: sums, unless they are set for the pod as a whole."""
    own = _amounts(spec.get("resources") or {}, side)
    return {**container_sums(spec, side), **{name: own[name] for name in _POD_LEVEL if name in own}}


def _subject(bound: str, name: str, limit: Document, amount: Quantity) -> str:
    return f"{bound} {name} usage per {limit['type']} is {amount}"


def _violations(limit: Document, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """The violations of one limit by a container or a pod; at most one of each bound and resource."""
    for name, least in _amounts(limit, "min").items():
        yield from _below(_subject("minimum", name, limit, least), least, requests.get(name), limits.get(name))
    for name, most in _amounts(limit, "max").items():
        yield from _above(_subject("maximum", name, limit, most), most, requests.get(name), limits.get(name))
    for name, ratio in _amounts(limit, "maxLimitRequestRatio").items():
        subject = f"{name} max limit to request ratio per {limit['type']} is {ratio}"
        yield from _beyond_ratio(subject, ratio, requests.get(name, _NOTHING), limits.get(name, _NOTHING))


def _below(subject: str, least: Quantity, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    requested, limited, enforced = _values(request or _NOTHING, limit or _NOTHING, least)
    if request is None:
        yield f"{subject}.  No request is specified"
    elif requested < enforced:
        yield f"{subject}, but request is {request}"
    elif limit is not None and limited < enforced:
        yield f"{subject}, but limit is {limit}"


def _above(subject: str, most: Quantity, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    requested, limited, enforced = _values(request or _NOTHING, limit or _NOTHING, most)
    if limit is None:
        yield f"{subject}.  No limit is specified"
    elif limited > enforced:
        yield f"{subject}, but limit is {limit}"
    elif request is not None and requested > enforced:
        yield f"{subject}, but request is {request}"


def _beyond_ratio(subject: str, ratio: Quantity, request: Quantity, limit: Quantity) -> Iterator[str]:
    requested, limited, _ = _values(request, limit, ratio)
    if not requested:
        yield f"{subject}, but no request is specified or request is 0"
    elif not limited:
        yield f"{subject}, but no limit is specified or limit is 0"
    else:
        is_precise = ratio.value() <= _MAX_MILLI_VALUE
        allowed = ratio.milli_value() if is_precise else ratio.value()
        if limited / requested * (1000 if is_precise else 1) > allowed:
            yield f"{subject}, but provided ratio is {limited / requested:f}"


def _values(request: Quantity, limit: Quantity, enforced: Quantity) -> tuple[int, int, int]:
    """The amounts as integers to compare: thousandths, unless one of them is too large for that."""
    wholes = request.value(), limit.value(), enforced.value()
    if max(wholes) <= _MAX_MILLI_VALUE:
        return request.milli_value(), limit.milli_value(), enforced.milli_value()
    return wholes
