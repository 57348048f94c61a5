"""The rules of RBAC's kinds: roles and their bindings, in a namespace and in the cluster.

As upstream, an update is looked at twice with the rules of a new object, so each of its complaints appears twice.

Upstream: pkg/registry/rbac/*/strategy.go, pkg/apis/rbac/v1/defaults.go, pkg/apis/rbac/validation/validation.go
"""

from pykubelet.api.field_errors import FieldError, each_invalid, invalid, not_supported, required
from pykubelet.api.names import dns1123_subdomain_errors, path_segment_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.kind import Check, Strategy
from pykubelet.kinds.metadata import label_selector_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.pod_template import parsed_selector

GROUP = "rbac.authorization.k8s.io"
_GROUP_OF_SUBJECT = {"User": GROUP, "Group": GROUP}
_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


def _role_strategy(kind: str, *, namespaced: bool) -> Strategy:
    def default(document: Document) -> Document:
        # The rules are written even where there are none.
        return {"rules": None, **normal_form(document, f"rbac.v1.{kind}")}

    def validate(document: Document) -> list[FieldError]:
        errors = metadata_errors(document["metadata"], name_rule=path_segment_errors, namespaced=namespaced)
        for index, rule in enumerate(document["rules"] or ()):
            errors += _rule_errors(rule, f"rules[{index}]", namespaced=namespaced)
        return errors if namespaced else errors + _aggregation_errors(document.get("aggregationRule"))

    def validate_update(new: Document, old: Document) -> list[FieldError]:
        return _twice(validate, new) + metadata_update_errors(new["metadata"], old["metadata"])

    return Strategy(
        default=default,
        validate_create=validate,
        validate_update=validate_update,
        allows_create_on_update=True,
    )


def _binding_strategy(kind: str, role_kinds: tuple[str, ...], *, namespaced: bool) -> Strategy:
    def default(document: Document) -> Document:
        normal = normal_form(document, f"rbac.v1.{kind}")
        role = normal["roleRef"]
        result = {**normal, "roleRef": {**role, "apiGroup": role["apiGroup"] or GROUP}}
        if "subjects" in normal:
            result["subjects"] = [_default_subject(subject) for subject in normal["subjects"]]
        return result

    def validate(document: Document) -> list[FieldError]:
        errors = metadata_errors(document["metadata"], name_rule=path_segment_errors, namespaced=namespaced)
        errors += _role_reference_errors(document["roleRef"], role_kinds)
        for index, subject in enumerate(document.get("subjects", ())):
            errors += _subject_errors(subject, f"subjects[{index}]", namespaced=namespaced)
        return errors

    def validate_update(new: Document, old: Document) -> list[FieldError]:
        errors = _twice(validate, new) + metadata_update_errors(new["metadata"], old["metadata"])
        if new["roleRef"] != old["roleRef"]:
            errors.append(invalid("roleRef", internal_form(new["roleRef"], "rbac.RoleRef"), "cannot change roleRef"))
        return errors

    return Strategy(
        default=default,
        validate_create=validate,
        validate_update=validate_update,
        allows_create_on_update=True,
    )


def _twice(check: Check, document: Document) -> list[FieldError]:
    return check(document) * 2


def _default_subject(subject: Document) -> Document:
    group = subject.get("apiGroup") or _GROUP_OF_SUBJECT.get(subject["kind"])
    return {**subject, "apiGroup": group} if group else subject


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
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(path, detail))
    for index, selector in enumerate(selectors):
        errors += label_selector_errors(selector, f"{path}[{index}]")
        if parsed_selector(selector) is None:
            errors.append(invalid(f"{path}[{index}]", None, "invalid label selector."))
    return errors


def _role_reference_errors(role: Document, kinds: tuple[str, ...]) -> list[FieldError]:
    group, kind, name = role["apiGroup"], role["kind"], role["name"]
    errors: list[FieldError] = []
    if group != GROUP:
        errors.append(not_supported("roleRef.apiGroup", group, (GROUP,)))
    if kind not in kinds:
        errors.append(not_supported("roleRef.kind", kind, kinds))
    if not name:
        return [*errors, required("roleRef.name")]
    return errors + each_invalid("roleRef.name", name, path_segment_errors(name))


def _subject_errors(subject: Document, path: str, *, namespaced: bool) -> list[FieldError]:
    kind, name, group = subject["kind"], subject["name"], subject.get("apiGroup", "")
    errors = [] if name else [required(f"{path}.name")]
    if kind not in _SUBJECT_KINDS:
        return [*errors, not_supported(f"{path}.kind", kind, _SUBJECT_KINDS)]
    if kind != "ServiceAccount":
        return errors if group == GROUP else [*errors, not_supported(f"{path}.apiGroup", group, (GROUP,))]
    if name:
        errors += each_invalid(f"{path}.name", name, dns1123_subdomain_errors(name))
    if group:
        errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
    if not namespaced and not subject.get("namespace"):
        errors.append(required(f"{path}.namespace"))
    return errors


STRATEGIES: dict[str, Strategy] = {
    f"clusterrolebindings.{GROUP}": _binding_strategy("ClusterRoleBinding", ("ClusterRole",), namespaced=False),
    f"clusterroles.{GROUP}": _role_strategy("ClusterRole", namespaced=False),
    f"rolebindings.{GROUP}": _binding_strategy("RoleBinding", ("Role", "ClusterRole"), namespaced=True),
    f"roles.{GROUP}": _role_strategy("Role", namespaced=True),
}
"""By group resource, such as `roles.rbac.authorization.k8s.io`."""
