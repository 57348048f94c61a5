"""Authorization checks: `authorizer.group('apps').resource('deployments').check('create').allowed()`.

Each step returns a new value; only `check` asks. The library knows no authorizer: the expression's owner passes a function.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/authz.go
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pykubelet.api.cel.values import CelError, add_kind
from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors

CHECK_STEPS = 35_000
"""The cost of a check, in proportion to upstream's: few of them fit into the budget of one evaluation."""


class AccessQuestion(NamedTuple):
    """What a check asks: a path, or a verb on a resource."""

    account: tuple[str, str] | None = None
    """Namespace and name of the service account; None for the user of the request."""
    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    fields: str = ""
    labels: str = ""


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The result of a check."""

    allowed: bool
    reason: str = ""


Ask = Callable[[AccessQuestion], AccessDecision]


@dataclass(frozen=True, slots=True)
class AuthorizerValue:
    """Asks for the user of the request, or for a service account; the variable `authorizer`."""

    ask: Ask
    question: AccessQuestion = field(default_factory=AccessQuestion)


@dataclass(frozen=True, slots=True)
class PathCheck(AuthorizerValue):
    """A check of a path that is no resource's."""


@dataclass(frozen=True, slots=True)
class GroupCheck(AuthorizerValue):
    """A group whose resource is not named yet."""


@dataclass(frozen=True, slots=True)
class ResourceCheck(AuthorizerValue):
    """A check of a resource; the variable `authorizer.requestResource`."""


def _service_account(on: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if dns1123_subdomain_errors(name):
        raise CelError("Invalid service account name")
    if dns1123_label_errors(namespace):
        raise CelError("Invalid service account namespace")
    return AuthorizerValue(on.ask, on.question._replace(account=(namespace, name)))


def _path(on: AuthorizerValue, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(on.ask, on.question._replace(path=path))


def _resource(on: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(on.ask, on.question._replace(resource=resource))


def _part(name: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def with_part(on: ResourceCheck, value: str) -> ResourceCheck:
        part: dict[str, Any] = {name: value}
        return ResourceCheck(on.ask, on.question._replace(**part))

    return with_part


def _check(on: AuthorizerValue, verb: str) -> AccessDecision:
    return on.ask(on.question._replace(verb=verb))


_PARTS = {
    "subresource": "subresource",
    "namespace": "namespace",
    "name": "name",
    "fieldSelector": "fields",
    "labelSelector": "labels",
}
_PREFIX = "kubernetes.authorization."
_AUTHORIZER, _PATH, _GROUP, _RESOURCE, _DECISION = (
    f"{_PREFIX}{name}" for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
add_kind(AuthorizerValue, _AUTHORIZER)
add_kind(PathCheck, _PATH)
add_kind(GroupCheck, _GROUP)
add_kind(ResourceCheck, _RESOURCE)
add_kind(AccessDecision, _DECISION)
OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    (f"({_AUTHORIZER}).path(string) -> {_PATH}", _path),
    (
        f"({_AUTHORIZER}).group(string) -> {_GROUP}",
        lambda on, group: GroupCheck(on.ask, on.question._replace(group=group)),
    ),
    (f"({_AUTHORIZER}).serviceAccount(string, string) -> {_AUTHORIZER}", _service_account),
    (f"({_GROUP}).resource(string) -> {_RESOURCE}", _resource),
    *((f"({_RESOURCE}).{name}(string) -> {_RESOURCE}", _part(field)) for name, field in _PARTS.items()),
    (f"({_PATH}).check(string) -> {_DECISION}", _check),
    (f"({_RESOURCE}).check(string) -> {_DECISION}", _check),
    (f"({_DECISION}).allowed() -> bool", lambda decision: decision.allowed),
    (f"({_DECISION}).reason() -> string", lambda decision: decision.reason),
    # Our authorizers decide without failing.
    (f"({_DECISION}).errored() -> bool", lambda _decision: False),
    (f"({_DECISION}).error() -> string", lambda _decision: ""),
)
