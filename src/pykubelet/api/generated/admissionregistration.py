"""Structs of the API group admissionregistration; written by tools/generate_api.py, not by hand."""

from msgspec import Struct, field

from pykubelet.api.generated.meta import Condition, LabelSelector, ObjectMeta


class AuditAnnotation(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """AuditAnnotation of admissionregistration.v1."""

    key: str = field(default_factory=str)
    value_expression: str = field(default_factory=str)


class ExpressionWarning(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ExpressionWarning of admissionregistration.v1."""

    field_ref: str = field(default_factory=str)
    warning: str = field(default_factory=str)


class MatchCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """MatchCondition of admissionregistration.v1."""

    expression: str = field(default_factory=str)
    name: str = field(default_factory=str)


class NamedRuleWithOperations(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NamedRuleWithOperations of admissionregistration.v1."""

    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str | None = None


class MatchResources(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """MatchResources of admissionregistration.v1."""

    exclude_resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: tuple[NamedRuleWithOperations, ...] = ()


class ParamKind(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ParamKind of admissionregistration.v1."""

    api_version: str = ""
    kind: str = ""


class TypeChecking(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TypeChecking of admissionregistration.v1."""

    expression_warnings: tuple[ExpressionWarning, ...] = ()


class Validation(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Validation of admissionregistration.v1."""

    expression: str = field(default_factory=str)
    message: str = ""
    message_expression: str = ""
    reason: str | None = None


class Variable(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Variable of admissionregistration.v1."""

    expression: str = field(default_factory=str)
    name: str = field(default_factory=str)


class ValidatingAdmissionPolicySpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ValidatingAdmissionPolicySpec of admissionregistration.v1."""

    audit_annotations: tuple[AuditAnnotation, ...] = ()
    failure_policy: str | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    match_constraints: MatchResources | None = None
    param_kind: ParamKind | None = None
    validations: tuple[Validation, ...] = ()
    variables: tuple[Variable, ...] = ()


class ValidatingAdmissionPolicyStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ValidatingAdmissionPolicyStatus of admissionregistration.v1."""

    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
    type_checking: TypeChecking | None = None


class ValidatingAdmissionPolicy(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ValidatingAdmissionPolicy of admissionregistration.v1."""

    api_version: str = field(default_factory=lambda: "admissionregistration.k8s.io/v1")
    kind: str = field(default_factory=lambda: "ValidatingAdmissionPolicy")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ValidatingAdmissionPolicySpec = field(default_factory=ValidatingAdmissionPolicySpec)
    status: ValidatingAdmissionPolicyStatus = field(default_factory=ValidatingAdmissionPolicyStatus)
