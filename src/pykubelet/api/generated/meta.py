"""Structs of the API group meta; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping
from types import NoneType

from msgspec import Struct, field



class Condition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Condition of meta.v1."""

    last_transition_time: str | None = field(default_factory=NoneType)
    message: str = field(default_factory=str)
    observed_generation: int = 0
    reason: str = field(default_factory=str)
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class Preconditions(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Preconditions of meta.v1."""

    resource_version: str | None = None
    uid: str | None = None


class DeleteOptions(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """DeleteOptions of meta.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    dry_run: tuple[str, ...] = ()
    grace_period_seconds: int | None = None
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None
    kind: str = field(default_factory=lambda: "DeleteOptions")
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None


class FieldSelectorRequirement(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """FieldSelectorRequirement of meta.v1."""

    key: str = field(default_factory=str)
    operator: str = field(default_factory=str)
    values: tuple[str, ...] = ()


class LabelSelectorRequirement(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LabelSelectorRequirement of meta.v1."""

    key: str = field(default_factory=str)
    operator: str = field(default_factory=str)
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """LabelSelector of meta.v1."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_labels: Mapping[str, str] = {}


class ListMeta(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ListMeta of meta.v1."""

    continue_: str = ""
    remaining_item_count: int | None = None
    resource_version: str = ""
    self_link: str = ""


class OwnerReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """OwnerReference of meta.v1."""

    api_version: str = field(default_factory=str)
    block_owner_deletion: bool | None = None
    controller: bool | None = None
    kind: str = field(default_factory=str)
    name: str = field(default_factory=str)
    uid: str = field(default_factory=str)


class ObjectMeta(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """ObjectMeta of meta.v1."""

    annotations: Mapping[str, str] = {}
    creation_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    generate_name: str = ""
    generation: int = 0
    labels: Mapping[str, str] = {}
    name: str = ""
    namespace: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""
    self_link: str = ""
    uid: str = ""


class StatusCause(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatusCause of meta.v1."""

    field: str = ""
    message: str = ""
    reason: str = ""


class StatusDetails(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """StatusDetails of meta.v1."""

    causes: tuple[StatusCause, ...] = ()
    group: str = ""
    kind: str = ""
    name: str = ""
    retry_after_seconds: int = 0
    uid: str = ""


class Status(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Status of meta.v1."""

    api_version: str = field(default_factory=lambda: "v1")
    code: int = 0
    details: StatusDetails | None = None
    kind: str = field(default_factory=lambda: "Status")
    message: str = ""
    metadata: ListMeta = field(default_factory=ListMeta)
    reason: str = ""
    status: str = ""
