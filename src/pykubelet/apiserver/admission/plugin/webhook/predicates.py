"""What a webhook or policy is asked about: rules, selectors, equivalent resources, exclusions.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace/matcher.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object/matcher.go,
staging/src/k8s.io/apimachinery/pkg/runtime/mapper.go
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pykubelet.api.labels import EVERYTHING, Selector, selector_from_document
from pykubelet.api.schema import NAMESPACES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.discovery import subresource_of
from pykubelet.apiserver.errors import not_found
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.storage.codec import collection_of
from pykubelet.kinds.kind import Kind

REGISTRATION_GROUP = "admissionregistration.k8s.io"
# Reviews answer questions of authentication and authorization, on which a webhook's own request may depend.
_REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_ANY = "*"


class ResourceName(NamedTuple):
    """Group, version and plural of a resource."""

    group: str
    version: str
    resource: str


class KindName(NamedTuple):
    """Group, version and kind."""

    group: str
    version: str
    kind: str


def resource_name(served: Kind) -> ResourceName:
    resource = served.resource
    return ResourceName(resource.group, resource.version, resource.plural)


def kind_name(served: Kind, subresource: str = "") -> KindName:
    """The kind of a request's object; that of a subresource may be another one than its resource's."""
    resource, of_subresource = served.resource, subresource_of(served, subresource)
    if subresource and of_subresource.kind:
        group, version = of_subresource.group, of_subresource.version
        return KindName(group, version or "v1", of_subresource.kind)
    return KindName(resource.group, resource.version, resource.kind)


def is_exempt(attributes: AdmissionAttributes) -> bool:
    """Whether no webhook or policy is asked: about their own configurations, and about reviews of access."""
    resource = attributes.served.resource
    if resource.group in _REVIEW_GROUPS:
        return "get" not in attributes.served.verbs
    return resource.group == REGISTRATION_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """One rule of a webhook or policy."""

    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    """Resources with their subresources; either may be `*`."""
    operations: frozenset[str]
    scope: str = _ANY
    names: frozenset[str] = frozenset()
    """Names of objects, for policies; empty for all."""

    @classmethod
    def of(cls, stated: Document) -> "AdmissionRule":
        parts = (str(name).partition("/") for name in stated.get("resources") or ())
        return cls(
            groups=frozenset(stated.get("apiGroups") or ()),
            versions=frozenset(stated.get("apiVersions") or ()),
            resources=frozenset((resource, subresource) for resource, _, subresource in parts),
            operations=frozenset(stated.get("operations") or ()),
            scope=stated.get("scope") or _ANY,
            names=frozenset(stated.get("resourceNames") or ()),
        )

    def matches(self, attributes: AdmissionAttributes, resource: ResourceName) -> bool:
        """Whether the rule is for a request, seen as one for `resource`."""
        subresource, operation = attributes.subresource, attributes.verb.upper()
        return (
            self._matches_scope(attributes)
            and bool(self.operations & {_ANY, operation})
            and bool(self.groups & {_ANY, resource.group})
            and bool(self.versions & {_ANY, resource.version})
            and any((of, sub) in self.resources for of in (resource.resource, _ANY) for sub in (subresource, _ANY))
            and (not self.names or attributes.name in self.names)
        )

    def _matches_scope(self, attributes: AdmissionAttributes) -> bool:
        if self.scope == _ANY:
            return True
        # A Namespace is in no namespace, although its requests name one.
        is_namespaced = bool(attributes.namespace) and attributes.served.resource != NAMESPACES
        return is_namespaced is (self.scope == "Namespaced")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchCriteria:
    """What a webhook or policy matches."""

    rules: tuple[AdmissionRule, ...]
    excluded: tuple[AdmissionRule, ...] = ()
    """For policies: what is not matched, whatever the rules say."""
    is_exact: bool = False
    namespaces: Selector = EVERYTHING
    objects: Selector = EVERYTHING

    @classmethod
    def of(cls, stated: Document, rules: str = "rules") -> "MatchCriteria":
        """The criteria in a webhook, or with `resourceRules` in the matchConstraints of a policy."""
        return cls(
            rules=tuple(map(AdmissionRule.of, stated.get(rules) or ())),
            excluded=tuple(map(AdmissionRule.of, stated.get("excludeResourceRules") or ())),
            is_exact=stated.get("matchPolicy") == "Exact",
            namespaces=_selector(stated.get("namespaceSelector")),
            objects=_selector(stated.get("objectSelector")),
        )


def _selector(stated: Document | None) -> Selector:
    return EVERYTHING if stated is None else selector_from_document(stated)


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a webhook or policy sees a matching request: as one for this kind, which may be an equivalent one."""

    served: Kind
    resource: ResourceName
    kind: KindName


class AdmissionMatcher:
    """Matches writes with criteria. `namespace_of` returns the newest state of a namespace, None if it does not exist."""

    def __init__(self, registry: ServedKinds, namespace_of: Callable[[str], Document | None]) -> None:
        self._registry, self._namespace_of = registry, namespace_of
        self._generation = -1
        self._by_collection: dict[str, list[Kind]] = {}

    def match(
        self, criteria: MatchCriteria, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Invocation | None:
        """Returns how the request matches, or None; NotFound if the namespace to select by does not exist."""
        if not criteria.objects.empty() and not (_selects(criteria.objects, new) or _selects(criteria.objects, old)):
            return None
        if self._kind_for(criteria.excluded, attributes, is_exact=criteria.is_exact) is not None:
            return None
        served = self._kind_for(criteria.rules, attributes, is_exact=criteria.is_exact)
        # After the rules, because it may fail, which must not affect webhooks for other resources.
        if served is None or not self._matches_namespace(criteria.namespaces, attributes, new):
            return None
        return Invocation(served, resource_name(served), kind_name(served, attributes.subresource))

    def _kind_for(
        self, rules: Sequence[AdmissionRule], attributes: AdmissionAttributes, *, is_exact: bool
    ) -> Kind | None:
        """The request's kind if a rule is for it, else the first equivalent one that a rule is for."""
        own = resource_name(attributes.served)
        if any(rule.matches(attributes, own) for rule in rules):
            return attributes.served
        if is_exact or not rules:
            return None
        equivalents = self._equivalents(attributes)
        return next(
            (kind for rule in rules for kind in equivalents if rule.matches(attributes, resource_name(kind))), None
        )

    def _equivalents(self, attributes: AdmissionAttributes) -> list[Kind]:
        """The other resources with the same objects: other versions, and the events of the other group."""
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._by_collection.clear()
            for kind in self._registry.all():
                self._by_collection.setdefault(collection_of(kind), []).append(kind)
        own, subresource = attributes.served.resource, attributes.subresource
        return [
            kind
            for kind in self._by_collection.get(collection_of(attributes.served), ())
            if kind.resource != own and (not subresource or subresource in kind.subresources)
        ]

    def _matches_namespace(self, selector: Selector, attributes: AdmissionAttributes, new: Document | None) -> bool:
        name, resource = attributes.namespace, attributes.served.resource
        if selector.empty() or (not name and resource.plural != NAMESPACES.plural):
            return True
        is_namespace = resource.plural == NAMESPACES.plural and not attributes.subresource
        if is_namespace and attributes.verb in ("create", "update"):
            # Its labels are about to change.
            return _selects(selector, new)
        namespace = self._namespace_of(name)
        if namespace is None:
            raise not_found(NAMESPACES, name)
        return _selects(selector, namespace)


def _selects(selector: Selector, document: Document | None) -> bool:
    return document is not None and selector.matches((document.get("metadata") or {}).get("labels") or {})
