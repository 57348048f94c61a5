"""ValidatingAdmissionPolicy: rejects writes that break a bound policy, or warns about or records them.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_matcher.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/matching/matching.go,
staging/src/k8s.io/apiserver/pkg/admission/errors.go
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pykubelet.api.errors import ApiError, Forbidden, Invalid, TooLarge
from pykubelet.api.field_errors import go_json
from pykubelet.api.labels import SelectorError
from pykubelet.api.schema import NAMESPACES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.plugin.cel.condition import admission_values
from pykubelet.apiserver.admission.plugin.policy.params import ConfigurationError, ParamSource
from pykubelet.apiserver.admission.plugin.policy.policies import BoundPolicy, PolicyBinding, PolicySource
from pykubelet.apiserver.admission.plugin.policy.validator import PolicyInput, Refusal, StepBudget
from pykubelet.apiserver.admission.plugin.webhook.predicates import (
    AdmissionMatcher,
    Invocation,
    MatchCriteria,
    is_exempt,
)
from pykubelet.apiserver.admission.plugin.webhook.request import admission_request
from pykubelet.apiserver.errors import forbidden, not_found
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision
from pykubelet.apiserver.storage.codec import served_form, stored_form
from pykubelet.apiserver.storage.interfaces import Store, StoreKey

_FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"
_MAX_ANNOTATION_CHARACTERS = 10 * 1024
_CLASSES: Mapping[str, type[ApiError]] = {each.reason: each for each in (Forbidden, Invalid, TooLarge)}
# The metadata of a namespace that expressions see.
_NAMESPACE_METADATA = (
    "name",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
)


class _Denial(NamedTuple):
    policy: str
    binding: str
    """Empty if the policy itself cannot be applied."""
    message: str
    reason: str = ""

    @property
    def text(self) -> str:
        with_binding = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{with_binding} denied request: {self.message}"


@dataclass(frozen=True, slots=True)
class _PolicyWrite:
    """A write, and what was denied so far."""

    attributes: AdmissionAttributes
    new: Document | None
    old: Document | None
    denials: list[_Denial] = field(default_factory=list)

    def misconfigured(self, policy: BoundPolicy, binding: str, error: Exception) -> None:
        """Denies the write because the policy cannot be applied, unless its failures are ignored."""
        if not policy.ignores_failures:
            part = "binding" if binding else "policy"
            self.denials.append(_Denial(policy.name, binding, f"failed to configure {part}: {error}"))


class ValidatingPolicies:
    """Applies the policies of a store to writes; call it with what is about to be stored and what is stored."""

    def __init__(
        self,
        store: Store,
        registry: ServedKinds,
        authorize: Callable[[AuthorizationAttributes], AuthorizationDecision],
    ) -> None:
        self._store, self._authorize = store, authorize
        self._source, self._params = PolicySource(store), ParamSource(registry, store)
        self._matcher = AdmissionMatcher(registry, self._newest_namespace)

    def __bool__(self) -> bool:
        """Whether any policy is bound."""
        return bool(self._source)

    def __call__(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> None:
        """Raises ApiError if a policy denies the write."""
        if is_exempt(attributes):
            return
        write = _PolicyWrite(attributes, new, old)
        for hook in self._source.hooks():
            self._apply(hook.policy, hook.bindings, write)
        if write.denials:
            raise _error(write.denials[0], write)

    def _apply(self, policy: BoundPolicy, bindings: Sequence[PolicyBinding], write: _PolicyWrite) -> None:
        try:
            invocation = self._match(policy.criteria, write)
            if invocation is None:
                return
            if policy.param_kind is not None:
                self._params.kind(policy.param_kind)
        except (ConfigurationError, ApiError, SelectorError) as error:
            write.misconfigured(policy, "", error)
            return
        annotations: dict[str, dict[str, None]] = {}
        for binding in bindings:
            for key, value in self._bound(policy, binding, invocation, write):
                annotations.setdefault(key, {})[value[:_MAX_ANNOTATION_CHARACTERS]] = None
        for key, values in annotations.items():
            write.attributes.annotate(f"{policy.name}/{key}", ", ".join(values))

    def _match(self, criteria: MatchCriteria, write: _PolicyWrite) -> Invocation | None:
        return self._matcher.match(criteria, write.attributes, write.new, write.old)

    def _bound(
        self, policy: BoundPolicy, binding: PolicyBinding, invocation: Invocation, write: _PolicyWrite
    ) -> Iterator[tuple[str, str]]:
        """Applies one binding; yields the audit annotations."""
        try:
            if binding.criteria is not None and self._match(binding.criteria, write) is None:
                return
            parameters = self._parameters(policy, binding, write.attributes.namespace)
        except (ConfigurationError, ApiError, SelectorError) as error:
            write.misconfigured(policy, binding.name, error)
            return
        budget = StepBudget()
        for each in self._inputs(parameters, invocation, write):
            result = policy.evaluator.validate(each, budget)
            for refusal in result.refusals:
                _act(refusal, policy, binding, write)
            write.denials.extend(_Denial(policy.name, binding.name, error) for error in result.annotation_errors)
            yield from result.annotations

    def _parameters(self, policy: BoundPolicy, binding: PolicyBinding, namespace: str) -> list[Document | None]:
        if policy.param_kind is None or binding.param_ref is None:
            return [None]
        return [*self._params.collect(self._params.kind(policy.param_kind), binding.param_ref, namespace)]

    def _inputs(
        self, parameters: list[Document | None], invocation: Invocation, write: _PolicyWrite
    ) -> Iterator[PolicyInput]:
        if not parameters:
            return
        attributes = write.attributes
        request = admission_request(attributes, invocation)
        new, old = (_as_seen(each, attributes, invocation) for each in (write.new, write.old))
        values = admission_values(attributes, request, new, old, authorize=self._authorize)
        with_namespace = (*values[:2], self._namespace(attributes), *values[3:])
        for each in parameters:
            yield PolicyInput(values, with_namespace, each)

    def _newest_namespace(self, name: str) -> Document | None:
        entry = self._store.newest(StoreKey(NAMESPACES.group_resource, "", name))
        return None if entry is None else entry.document

    def _namespace(self, attributes: AdmissionAttributes) -> Document | None:
        # A Namespace is in no namespace, although its requests name one.
        if not attributes.namespace or attributes.served.resource == NAMESPACES:
            return None
        namespace = self._newest_namespace(attributes.namespace)
        if namespace is None:
            raise not_found(NAMESPACES, attributes.namespace)
        metadata = namespace["metadata"]
        shown = {name: metadata[name] for name in _NAMESPACE_METADATA if name in metadata}
        return {"metadata": shown, "spec": namespace.get("spec", {}), "status": namespace.get("status", {})}


def _as_seen(document: Document | None, attributes: AdmissionAttributes, invocation: Invocation) -> Document | None:
    """The document in the version that the policy names."""
    served = attributes.served
    if document is None or attributes.subresource or invocation.served is served:
        return document
    return served_form(invocation.served, stored_form(served, document))


def _act(refusal: Refusal, policy: BoundPolicy, binding: PolicyBinding, write: _PolicyWrite) -> None:
    """Denies the write, warns about it or records it, as the binding says."""
    for action in binding.actions:
        match action:
            case "Deny":
                write.denials.append(_Denial(policy.name, binding.name, refusal.message, refusal.reason))
            case "Warn":
                named = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
                write.attributes.warn(f"Validation failed for {named}: {refusal.message}")
            case "Audit":
                failure = {
                    "message": refusal.message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": refusal.index,
                    "validationActions": binding.actions,
                }
                write.attributes.annotate(_FAILURE_KEY, go_json([failure]))


def _error(denial: _Denial, write: _PolicyWrite) -> ApiError:
    attributes = write.attributes
    metadata = ((write.new or write.old or {}).get("metadata")) or {}
    name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    stated = forbidden(attributes.served.resource, name, denial.text, causes=[{"message": denial.text}])
    return _CLASSES.get(denial.reason, Invalid)(stated.message, details=stated.details)
