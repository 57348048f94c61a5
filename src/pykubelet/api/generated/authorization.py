"""Structs of the API group authorization; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.api.generated.meta import FieldSelectorRequirement, LabelSelectorRequirement, ObjectMeta


class FieldSelectorAttributes(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """FieldSelectorAttributes of authorization.v1."""

    raw_selector: str = ""
    requirements: tuple[FieldSelectorRequirement, ...] = ()


class LabelSelectorAttributes(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LabelSelectorAttributes of authorization.v1."""

    raw_selector: str = ""
    requirements: tuple[LabelSelectorRequirement, ...] = ()


class NonResourceAttributes(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """NonResourceAttributes of authorization.v1."""

    path: str = ""
    verb: str = ""


class ResourceAttributes(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ResourceAttributes of authorization.v1."""

    field_selector: FieldSelectorAttributes | None = None
    group: str = ""
    label_selector: LabelSelectorAttributes | None = None
    name: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    verb: str = ""
    version: str = ""


class SubjectAccessReviewSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SubjectAccessReviewSpec of authorization.v1."""

    extra: Mapping[str, tuple[str, ...]] = {}
    groups: tuple[str, ...] = ()
    non_resource_attributes: NonResourceAttributes | None = None
    resource_attributes: ResourceAttributes | None = None
    uid: str = ""
    user: str = ""


class SubjectAccessReviewStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SubjectAccessReviewStatus of authorization.v1."""

    allowed: bool = field(default_factory=bool)
    denied: bool = False
    evaluation_error: str = ""
    reason: str = ""


class SubjectAccessReview(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """SubjectAccessReview of authorization.v1."""

    api_version: str = field(default_factory=lambda: "authorization.k8s.io/v1")
    kind: str = field(default_factory=lambda: "SubjectAccessReview")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: SubjectAccessReviewSpec = field(default_factory=SubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus = field(default_factory=SubjectAccessReviewStatus)
