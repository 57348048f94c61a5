"""RoleBinding and ClusterRoleBinding: grant a role to users, groups and service accounts.

As upstream, an update is validated twice with the rules of a new object, so each of its errors appears twice.

Upstream: pkg/registry/rbac/rolebinding/strategy.go, pkg/registry/rbac/clusterrolebinding/strategy.go,
pkg/apis/rbac/v1/defaults.go, pkg/apis/rbac/validation/validation.go
"""

from collections.abc import Callable
from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, invalid, not_supported, optional_errors, required
from pykubelet.api.names import dns1123_subdomain_errors, path_segment_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.kind import Kind, Strategy
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.role import GROUP

_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


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
        errors = validate(new) * 2 + metadata_update_errors(new["metadata"], old["metadata"])
        if new["roleRef"] != old["roleRef"]:
            errors.append(invalid("roleRef", internal_form(new["roleRef"], "rbac.RoleRef"), "cannot change roleRef"))
        return errors

    return Strategy(
        default=default, validate_create=validate, validate_update=validate_update, allows_create_on_update=True
    )


def _default_subject(subject: Document) -> Document:
    if not subject.get("apiGroup") and subject["kind"] in {"User", "Group"}:
        return {**subject, "apiGroup": GROUP}
    return subject


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
    errors += optional_errors(f"{path}.name", name, dns1123_subdomain_errors)
    if group:
        errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
    if not namespaced and not subject.get("namespace"):
        errors.append(required(f"{path}.namespace"))
    return errors


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, role, age, users, groups, service accounts."""
    role = at(document, "roleRef")
    subjects = document.get("subjects") or ()

    def of(kind: str, shown: Callable[[Document], str] = lambda subject: str(subject.get("name", ""))) -> str:
        return ", ".join(shown(subject) for subject in subjects if subject.get("kind") == kind)

    return [
        name_of(document),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        created(document, age),
        of("User"),
        of("Group"),
        of("ServiceAccount", lambda subject: f"{subject.get('namespace', '')}/{subject.get('name', '')}"),
    ]


CLUSTER_ROLE_BINDING = Kind(
    resource=Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    definition="rbac.v1.ClusterRoleBinding",
    strategy=_binding_strategy("ClusterRoleBinding", ("ClusterRole",), namespaced=False),
    cells=_cells,
)
ROLE_BINDING = Kind(
    resource=Resource(GROUP, "v1", "rolebindings", "RoleBinding"),
    definition="rbac.v1.RoleBinding",
    strategy=_binding_strategy("RoleBinding", ("Role", "ClusterRole"), namespaced=True),
    cells=_cells,
)
