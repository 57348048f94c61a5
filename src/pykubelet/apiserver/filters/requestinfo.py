"""RequestInfo: parses method, path and query into verb, resource, namespace and name.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go,
staging/src/k8s.io/apiserver/pkg/endpoints/installer.go
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pykubelet.api.fields import parse_field_selector
from pykubelet.api.labels import SelectorError
from pykubelet.apiserver.discovery import subresource_of
from pykubelet.apiserver.errors import no_such_method, no_such_path
from pykubelet.apiserver.handlers.options import is_true
from pykubelet.kinds.kind import Kind

Find = Callable[[str, str, str], Kind | None]
"""Finds the served kind by group, version and plural."""

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_COLLECTIONS = frozenset({"list", "watch", "create", "deletecollection"})
_OF_OBJECTS = frozenset({"get", "update", "patch", "delete"})
_WITH_SELECTORS = frozenset({"list", "watch", "deletecollection"})
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
PROXY = "proxy"
"""The subresource whose requests pods and nodes answer, whatever their method."""
# Deprecated path prefixes that name a verb.
_SPECIAL = frozenset({"proxy", "watch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """A request about a resource, as the authorizer sees it.

    `name` may come from a field selector; `named_in_path` is False then. `rest` is the path after a subresource, which
    only proxies use. `verb` is empty for a method that has no verb here.
    """

    path: str
    verb: str
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    fields: str = ""
    labels: str = ""
    named_in_path: bool = True


def request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo | None:
    """Parses a request; None if its path names no resource."""
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis") or (parts[0] == "apis" and len(parts) < 4):
        return None
    group = parts[1] if parts[0] == "apis" else ""
    version, *parts = parts[2:] if group else parts[1:]
    verb = _VERBS.get(method, "")
    special = parts[0] in _SPECIAL
    if special:
        verb, *parts = parts
        if not parts:
            return None
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    plural, name, subresource, *rest = [*parts, "", ""][: max(len(parts), 3)]
    named = bool(name)
    if not name and verb == "get":
        verb = "watch" if is_true(query, "watch") else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    selects = verb in _WITH_SELECTORS and not special
    return RequestInfo(
        path=path,
        verb=verb,
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
        rest="/".join(rest),
        fields=query.get("fieldSelector", "") if selects else "",
        labels=query.get("labelSelector", "") if selects else "",
        named_in_path=named,
    )


def served_at(info: RequestInfo, find: Find) -> Kind:
    """The kind that serves the request; NotFound if there is none, MethodNotAllowed if it does not support the verb."""
    served = find(info.group, info.version, info.plural)
    if served is None or not _is_path(info, served):
        raise no_such_path()
    if info.subresource:
        known = subresource_of(served, info.subresource).verbs
        is_proxy = info.subresource == PROXY
        # OPTIONS has no verb; what is proxied decides about it.
        if (info.verb not in known and not (is_proxy and not info.verb)) or (info.rest and not is_proxy):
            raise no_such_method()
        return served
    expected = _OF_OBJECTS if info.named_in_path else _OF_COLLECTIONS
    old_watch = info.verb == "watch" and info.named_in_path
    if info.verb not in served.verbs or not (info.verb in expected or old_watch):
        raise no_such_method()
    if served.resource.namespaced and not info.namespace and info.verb not in ("list", "watch"):
        raise no_such_method()
    return served


def _is_path(info: RequestInfo, served: Kind) -> bool:
    """Whether the resource has a path of this form (scope and subresource)."""
    if info.subresource and info.subresource not in served.subresources:
        return False
    if served.resource.namespaced:
        return bool(info.namespace) or not info.named_in_path
    # The path of a Namespace names it twice: as the object and as the scope.
    return not info.namespace or (served.resource.plural == "namespaces" and not served.resource.group)


def _selected_name(text: str) -> str:
    """The only name that a field selector allows, if it can be a path segment."""
    if "metadata.name" not in text:
        return ""
    try:
        name = parse_field_selector(text).required_value("metadata.name") or ""
    except SelectorError:
        return ""
    return "" if name in {".", ".."} or "/" in name or "%" in name else name
