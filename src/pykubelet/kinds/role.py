"""Role and ClusterRole: sets of permissions.

As upstream, an update is validated twice with the rules of a new object, so each of its errors appears twice.

Upstream: pkg/registry/rbac/role/strategy.go, pkg/registry/rbac/clusterrole/strategy.go,
pkg/apis/rbac/validation/validation.go
"""

from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.names import path_segment_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import Kind, Strategy
from pykubelet.kinds.metadata import label_selector_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.pod_template import parsed_selector

GROUP = "rbac.authorization.k8s.io"


def _role_strategy(kind: str, *, namespaced: bool) -> Strategy:
    def default(document: Document) -> Document:
        # The rules are written even if there are none.
        return {"rules": None, **normal_form(document, f"rbac.v1.{kind}")}

    def validate(document: Document) -> list[FieldError]:
        errors = metadata_errors(document["metadata"], name_rule=path_segment_errors, namespaced=namespaced)
        for index, rule in enumerate(document["rules"] or ()):
            errors += _rule_errors(rule, f"rules[{index}]", namespaced=namespaced)
        return errors if namespaced else errors + _aggregation_errors(document.get("aggregationRule"))

    def validate_update(new: Document, old: Document) -> list[FieldError]:
        return validate(new) * 2 + metadata_update_errors(new["metadata"], old["metadata"])

    return Strategy(
        default=default, validate_create=validate, validate_update=validate_update, allows_create_on_update=True
    )


def _rule_errors(rule: Document, path: str, *, namespaced: bool) -> list[FieldError]:
    errors = [] if rule.get("verbs") else [required(f"{path}.verbs", "verbs must contain at least one value")]
    if urls := rule.get("nonResourceURLs"):
        at = f"{path}.nonResourceURLs"
        if namespaced:
            errors.append(invalid(at, urls, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            errors.append(invalid(at, urls, "rules cannot apply to both regular resources and non-resource URLs"))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _aggregation_errors(rule: Document | None) -> list[FieldError]:
    if rule is None:
        return []
    path, selectors = "aggregationRule.clusterRoleSelectors", rule.get("clusterRoleSelectors", ())
    errors: list[FieldError] = []
    if not selectors:
        errors.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
    for index, selector in enumerate(selectors):
        errors += label_selector_errors(selector, f"{path}[{index}]")
        if parsed_selector(selector) is None:
            errors.append(invalid(f"{path}[{index}]", None, "invalid label selector."))
    return errors


CLUSTER_ROLE = Kind(
    resource=Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False),
    definition="rbac.v1.ClusterRole",
    strategy=_role_strategy("ClusterRole", namespaced=False),
)
ROLE = Kind(
    resource=Resource(GROUP, "v1", "roles", "Role"),
    definition="rbac.v1.Role",
    strategy=_role_strategy("Role", namespaced=True),
)
