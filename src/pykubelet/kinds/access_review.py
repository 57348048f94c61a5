"""The kinds that ask the API server about a user: token reviews and access reviews.

A review is only ever created: the server answers with its status and stores nothing, so these kinds have no rules.

Upstream: pkg/registry/authentication/rest/storage_authentication.go, pkg/registry/authorization/rest/storage_authorization.go
"""

from pykubelet.api.schema import Resource
from pykubelet.kinds.kind import Kind


def _review(group: str, kind: str, *, namespaced: bool = False) -> Kind:
    return Kind(
        resource=Resource(f"{group}.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=namespaced),
        definition=f"{group}.v1.{kind}",
        verbs=("create",),
    )


KINDS = (
    _review("authentication", "SelfSubjectReview"),
    _review("authentication", "TokenReview"),
    _review("authorization", "LocalSubjectAccessReview", namespaced=True),
    _review("authorization", "SelfSubjectAccessReview"),
    _review("authorization", "SelfSubjectRulesReview"),
    _review("authorization", "SubjectAccessReview"),
)
