"""Checks the expressions of a policy against the schemas of the kinds that it matches.

The API server accepts expressions on objects of any type; the warnings name those that fail for a kind. At most ten
kinds are checked, and none of a rule with wildcards.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pykubelet.api.cel.admission import ADMISSION_VARIABLES
from pykubelet.api.cel.composition import PolicyCompiler
from pykubelet.api.cel.openapi import Schema, published_type
from pykubelet.api.cel.types import Type
from pykubelet.api.generated.admissionregistration import ValidatingAdmissionPolicySpec
from pykubelet.api.schema import Resource

MAX_TYPES = 10
_GVK = "x-kubernetes-group-version-kind"
Schemas = Mapping[str, Mapping[str, Schema]]
"""Published schemas by name, by group and version."""


class CheckedKind(NamedTuple):
    """Group, version and kind, in the order of the warnings."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class ExpressionProblem(NamedTuple):
    """A warning and the field of the expression."""

    field: str
    text: str


def kinds_to_check(spec: ValidatingAdmissionPolicySpec, served: Sequence[Resource]) -> list[CheckedKind]:
    """The served kinds that the policy's rules name, sorted."""
    by_name = {(each.group, each.version, each.plural): each.kind for each in served}
    rules = spec.match_constraints.resource_rules if spec.match_constraints is not None else ()
    found: set[CheckedKind] = set()
    for rule in rules:
        if any("*" in name for name in (*rule.api_groups, *rule.api_versions)):
            continue
        resources = [name for name in rule.resources if "*" not in name and "/" not in name]
        names = (
            (group, version, resource)
            for group in sorted(rule.api_groups)
            for version in sorted(rule.api_versions)
            for resource in sorted(resources)
        )
        for name in names:
            if name in by_name:
                found.add(CheckedKind(name[0], name[1], by_name[name]))
            if len(found) == MAX_TYPES:
                return sorted(found)
    return sorted(found)


def param_kind(spec: ValidatingAdmissionPolicySpec) -> CheckedKind | None:
    """The kind of the policy's parameters."""
    stated = spec.param_kind
    if stated is None:
        return None
    group, _, version = stated.api_version.rpartition("/")
    return CheckedKind(group, version, stated.kind)


def expression_warnings(
    spec: ValidatingAdmissionPolicySpec, kinds: Sequence[CheckedKind], schemas: Schemas
) -> list[ExpressionProblem]:
    """The type errors of the validations and their message expressions."""
    params = param_kind(spec)
    params_type = None if params is None else _type_of(params, schemas)
    compilers = [
        (kind, _compiler(spec, type_, params_type)) for kind in kinds if (type_ := _type_of(kind, schemas)) is not None
    ]
    return list(_problems(spec, compilers))


def _type_of(kind: CheckedKind, schemas: Schemas) -> Type | None:
    published = schemas.get(kind.api_version, {})
    wanted = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    name = next((name for name, schema in published.items() if wanted in schema.get(_GVK, ())), None)
    return None if name is None else published_type(name, published)


def _compiler(spec: ValidatingAdmissionPolicySpec, type_: Type, params: Type | None) -> PolicyCompiler:
    typed = {"object": type_, "oldObject": type_, **({} if params is None else {"params": params})}
    compiler = PolicyCompiler(has_params=False, variables={**ADMISSION_VARIABLES, **typed})
    for variable in spec.variables:
        compiler.add_variable(variable.name, variable.expression)
    return compiler


def _problems(
    spec: ValidatingAdmissionPolicySpec, compilers: Sequence[tuple[CheckedKind, PolicyCompiler]]
) -> Iterator[ExpressionProblem]:
    for index, validation in enumerate(spec.validations):
        for name, text in (
            ("expression", validation.expression),
            ("messageExpression", validation.message_expression),
        ):
            found = [f"{kind}: {why}\n" for kind, compiler in compilers if text and (why := compiler.type_error(text))]
            if found:
                yield ExpressionProblem(f"spec.validations[{index}].{name}", "\n".join(found))
