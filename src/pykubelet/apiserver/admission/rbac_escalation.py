"""RBAC escalation check: a user can grant only rights that they hold.

Upstream: pkg/registry/rbac/escalation_check.go, pkg/registry/rbac/clusterrole/policybased/storage.go,
pkg/registry/rbac/clusterrolebinding/policybased/storage.go, pkg/registry/rbac/validation/rule.go
"""

from collections.abc import Sequence

from pykubelet.api.field_errors import go_quote
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.authorization import rbac
from pykubelet.apiserver.authorization.authorizer import Authorizer
from pykubelet.apiserver.authorization.rbac import GROUP, PolicyRule, RoleMissing
from pykubelet.apiserver.errors import forbidden, not_found
from pykubelet.apiserver.request import MASTERS, AuthorizationAttributes

_EVERYTHING = (PolicyRule(verbs=("*",), groups=("*",), resources=("*",)), PolicyRule(verbs=("*",), paths=("*",)))
# A rejected role could have billions of combinations; the message is limited to these.
_MOST_NAMED = 10_000
# The garbage collector changes these fields, which grant nothing.
_OF_GARBAGE = frozenset({"ownerReferences", "finalizers", "managedFields"})


class RbacEscalation:
    """Rejects roles and bindings that grant rights their writer does not hold."""

    resources = frozenset(rbac.COLLECTIONS)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        resource = attributes.served.resource
        if new is None or MASTERS in attributes.user.groups:
            return new
        if old is not None and _without_garbage(new) == _without_garbage(old):
            return new
        if resource.plural in {"roles", "clusterroles"}:
            self._role(attributes, new, old)
        elif resource.plural in {"rolebindings", "clusterrolebindings"}:
            self._binding(attributes, new)
        return new

    def _role(self, attributes: AdmissionAttributes, role: Document, old: Document | None) -> None:
        # A create request has no name for the authorizer; only the object has it.
        name = "" if attributes.verb == "create" else attributes.name
        if self._may(attributes, "escalate", attributes.served.resource.plural, name):
            return
        if why := self._lacking(attributes, rbac.read_rules(role.get("rules"))):
            raise forbidden(attributes.served.resource, _name(attributes, role), why)
        if (_aggregates(role) or (old is not None and _aggregates(old))) and self._lacking(attributes, _EVERYTHING):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(attributes.served.resource, _name(attributes, role), why)

    def _binding(self, attributes: AdmissionAttributes, binding: Document) -> None:
        role = rbac.read_role_ref(binding)
        plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(role.kind)
        # The kind's own validation rejects other references.
        if plural is None or role.group != GROUP or self._may(attributes, "bind", plural, role.name):
            return
        try:
            rules = self._authorizer.rbac.role_rules(role, attributes.namespace)
        except RoleMissing as error:
            raise not_found(Resource(GROUP, "v1", plural, role.kind), role.name) from error
        if why := self._lacking(attributes, rules):
            raise forbidden(attributes.served.resource, _name(attributes, binding), why)

    def _may(self, attributes: AdmissionAttributes, verb: str, resource: str, name: str) -> bool:
        review = AuthorizationAttributes(
            user=attributes.user,
            verb=verb,
            group=GROUP,
            version="*",
            resource=resource,
            namespace=attributes.namespace,
            name=name,
        )
        return self._authorizer.decide(review).allowed

    def _lacking(self, attributes: AdmissionAttributes, wanted: Sequence[PolicyRule]) -> str:
        """The rights that the writer lacks, as a message; empty if they hold them all."""
        user = attributes.user
        held, problems = self._authorizer.rbac.rules_for(user, attributes.namespace)
        lacking = rbac.uncovered_rules(held, wanted, most=_MOST_NAMED)
        if not lacking:
            return ""
        texts = "\n".join(sorted({rule.text for rule in rbac.compact(lacking)}))
        texts += "\n..." if len(lacking) == _MOST_NAMED else ""
        title = f"user {go_quote(user.name)} (groups={rbac.go_list(user.groups)}) is attempting to grant RBAC permissions not currently held:"
        errors = f"; resolution errors: [{' '.join(problems)}]" if problems else ""
        return f"{title}\n{texts}{errors}"


def _aggregates(role: Document) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _without_garbage(document: Document) -> Document:
    metadata = {field: value for field, value in document["metadata"].items() if field not in _OF_GARBAGE}
    return document | {"metadata": metadata}


def _name(attributes: AdmissionAttributes, document: Document) -> str:
    name: str = document["metadata"].get("name") or attributes.name
    return name
