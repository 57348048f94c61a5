"""The stored policies and their bindings, parsed once, as admission applies them.

Each follows its object in the store: a policy holds for every write that begins after the one that stored it or its
binding was answered. Expressions are compiled when the policy matches a write for the first time.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from pykubelet.api.schema import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.plugin.policy.validator import PolicyEvaluator
from pykubelet.apiserver.admission.plugin.webhook.predicates import MatchCriteria
from pykubelet.apiserver.storage.interfaces import Store, StoreChange, StoreEntry

_RULES = "resourceRules"
_EVERYTHING = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]


class BoundPolicy:
    """A policy: what it matches, its parameters' kind, and its expressions."""

    def __init__(self, document: Document) -> None:
        self.name: str = document["metadata"]["name"]
        self._spec: Document = document["spec"]

    @property
    def param_kind(self) -> Document | None:
        return self._spec.get("paramKind")

    @property
    def ignores_failures(self) -> bool:
        return bool(self._spec.get("failurePolicy") == "Ignore")

    @cached_property
    def criteria(self) -> MatchCriteria:
        return MatchCriteria.of(self._spec["matchConstraints"], _RULES)

    @cached_property
    def evaluator(self) -> PolicyEvaluator:
        return PolicyEvaluator(self._spec)


class PolicyBinding:
    """A binding: the policy's name, parameters, actions, and what it matches of what the policy matches."""

    def __init__(self, document: Document) -> None:
        self.name: str = document["metadata"]["name"]
        self._spec: Document = document["spec"]

    @property
    def policy_name(self) -> str:
        return str(self._spec["policyName"])

    @property
    def actions(self) -> list[str]:
        return list(self._spec["validationActions"])

    @property
    def param_ref(self) -> Document | None:
        return self._spec.get("paramRef")

    @cached_property
    def criteria(self) -> MatchCriteria | None:
        """None if it matches whatever the policy does."""
        stated = self._spec.get("matchResources")
        if stated is None:
            return None
        return MatchCriteria.of({**stated, _RULES: stated.get(_RULES) or _EVERYTHING}, _RULES)


class PolicyHook(NamedTuple):
    """A policy with its bindings, both by name."""

    policy: BoundPolicy
    bindings: tuple[PolicyBinding, ...]


class PolicySource:
    """Follows the policies and bindings of a store."""

    def __init__(self, store: Store) -> None:
        self._policies: dict[str, BoundPolicy] = {}
        self._bindings: dict[str, PolicyBinding] = {}
        self._by_policy: dict[str, dict[str, PolicyBinding]] = {}
        self._hooks: tuple[PolicyHook, ...] | None = None
        for resource, follow in (
            (VALIDATING_ADMISSION_POLICIES, self._follow_policy),
            (VALIDATING_ADMISSION_POLICY_BINDINGS, self._follow_binding),
        ):
            store.listen(resource.group_resource, _following(follow))
            for entry in store.list(resource.group_resource).entries:
                follow(entry.key.name, entry)

    def __bool__(self) -> bool:
        """Whether there is any binding: without one no policy applies."""
        return bool(self._by_policy)

    def hooks(self) -> tuple[PolicyHook, ...]:
        """The policies that have bindings, by name."""
        if self._hooks is None:
            self._hooks = tuple(
                PolicyHook(self._policies[name], tuple(bindings[each] for each in sorted(bindings)))
                for name, bindings in sorted(self._by_policy.items())
                if name in self._policies
            )
        return self._hooks

    def _follow_policy(self, name: str, entry: StoreEntry | None) -> None:
        self._hooks = None
        self._policies.pop(name, None)
        if entry is not None:
            self._policies[name] = BoundPolicy(entry.document)

    def _follow_binding(self, name: str, entry: StoreEntry | None) -> None:
        self._hooks = None
        if (before := self._bindings.pop(name, None)) is not None:
            others = self._by_policy[before.policy_name]
            del others[name]
            if not others:
                del self._by_policy[before.policy_name]
        if entry is not None:
            binding = self._bindings[name] = PolicyBinding(entry.document)
            self._by_policy.setdefault(binding.policy_name, {})[name] = binding


def _following(follow: Callable[[str, StoreEntry | None], None]) -> Callable[[StoreChange], None]:
    return lambda change: follow(change.key.name, change.after)
