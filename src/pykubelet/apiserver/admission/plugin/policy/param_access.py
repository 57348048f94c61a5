"""Rejects policies and bindings whose parameters their writer cannot read.

A policy's messages could show what the parameters say.

Upstream: pkg/registry/admissionregistration/validatingadmissionpolicy/authz.go,
pkg/registry/admissionregistration/validatingadmissionpolicybinding/authz.go,
pkg/registry/admissionregistration/resolver/resolver.go
"""

from collections.abc import Callable

from pykubelet.api.field_errors import forbidden
from pykubelet.api.schema import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.plugin.policy.params import ConfigurationError, ParamSource
from pykubelet.apiserver.errors import invalid_object
from pykubelet.apiserver.request import MASTERS, AuthorizationAttributes, AuthorizationDecision, UserInfo
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

_ANY = "*"


class ParamAccess:
    """Admits policies and bindings of users who may read the parameters; `newest` returns the newest entry of a key."""

    resources = frozenset(
        {VALIDATING_ADMISSION_POLICIES.group_resource, VALIDATING_ADMISSION_POLICY_BINDINGS.group_resource}
    )

    def __init__(
        self,
        params: ParamSource,
        newest: Callable[[StoreKey], StoreEntry | None],
        authorize: Callable[[AuthorizationAttributes], AuthorizationDecision],
    ) -> None:
        self._params, self._newest, self._authorize = params, newest, authorize

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        if new is None or attributes.subresource or MASTERS in attributes.user.groups:
            return new
        is_policy = attributes.served.resource == VALIDATING_ADMISSION_POLICIES
        names = ("paramKind",) if is_policy else ("paramRef", "policyName")
        before = {} if old is None else old["spec"]
        if names[0] not in new["spec"] or all(new["spec"].get(name) == before.get(name) for name in names):
            return new
        problem = self._policy_problem(new, attributes) if is_policy else self._binding_problem(new, attributes)
        strategy = attributes.served.strategy
        # What the object lacks itself is reported first.
        if problem and not (strategy.validate_create(new) if old is None else strategy.validate_update(new, old)):
            name = attributes.name or new["metadata"].get("name", "")
            raise invalid_object(attributes.served.resource, name, [forbidden(f"spec.{names[0]}", problem)])
        return new

    def _policy_problem(self, policy: Document, attributes: AdmissionAttributes) -> str:
        kind = policy["spec"]["paramKind"]
        if self._may_read(attributes.user, "get", kind, _ANY, _ANY):
            return ""
        named = f"kind={kind.get('kind', '')}, apiVersion={kind.get('apiVersion', '')}"
        return (
            f'user {_go_text(attributes.user)} must have "get" permission on all objects of the referenced paramKind '
            f"({named})"
        )

    def _binding_problem(self, binding: Document, attributes: AdmissionAttributes) -> str:
        ref, policy_name = binding["spec"]["paramRef"], binding["spec"].get("policyName", "")
        policy = self._newest(StoreKey(VALIDATING_ADMISSION_POLICIES.group_resource, "", policy_name))
        kind = None if policy is None else policy.document["spec"].get("paramKind")
        verb = "get" if ref.get("name") else "list"
        if self._may_read(attributes.user, verb, kind, ref.get("name", ""), ref.get("namespace", "")):
            return ""
        user = _go_text(attributes.user)
        everything = f'user {user} does not have "{verb}" permission for all groups, versions and resources'
        if policy is None:
            return f"unable to get policy {policy_name} to determine minimum required permissions and {everything}"
        if kind is not None and not self._plural(kind):
            shown = f"&ParamKind{{APIVersion:{kind.get('apiVersion', '')},Kind:{kind.get('kind', '')},}}"
            return f"unable to resolve paramKind {shown} to determine minimum required permissions and {everything}"
        return f'user {user} does not have "{verb}" permission on the object referenced by paramRef'

    def _may_read(self, user: UserInfo, verb: str, kind: Document | None, name: str, namespace: str) -> bool:
        group, version, plural = _ANY, _ANY, _ANY
        if kind is not None:
            group, _, version = kind.get("apiVersion", "").rpartition("/")
            plural = self._plural(kind) or _ANY
        review = AuthorizationAttributes(
            user=user, verb=verb, group=group, version=version, resource=plural, name=name, namespace=namespace
        )
        return self._authorize(review).allowed

    def _plural(self, kind: Document) -> str:
        try:
            return self._params.kind(kind).resource.plural
        except ConfigurationError:
            return ""


def _go_text(user: UserInfo) -> str:
    """A user as Go prints it."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
