"""Finds the flow schema of a request, which gives it a priority level and a flow.

Upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/rule.go
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pykubelet.api.serializer import Document
from pykubelet.apiserver.filters.requestinfo import RequestInfo
from pykubelet.apiserver.request import ACCOUNT_PREFIX, UserInfo

_EVERY = "*"


@dataclass(frozen=True, slots=True)
class FlowSchemaRules:
    """A flow schema as requests are compared with it."""

    name: str
    precedence: int
    level: str
    distinguisher: str
    rules: Sequence[Document]

    def matches(self, user: UserInfo, info: RequestInfo) -> bool:
        return any(_matches_rule(rule, user, info) for rule in self.rules)

    def flow(self, user: UserInfo, info: RequestInfo) -> str:
        """What tells the flows of one schema apart."""
        own = {"ByUser": user.name, "ByNamespace": info.namespace}.get(self.distinguisher, "")
        return f"{self.name}/{own}"


def flow_schema_rules(document: Document) -> FlowSchemaRules:
    spec = document["spec"]
    return FlowSchemaRules(
        name=document["metadata"]["name"],
        precedence=spec["matchingPrecedence"],
        level=spec["priorityLevelConfiguration"]["name"],
        distinguisher=(spec.get("distinguisherMethod") or {}).get("type", ""),
        rules=spec.get("rules") or (),
    )


def _matches_rule(rule: Document, user: UserInfo, info: RequestInfo) -> bool:
    is_of_user = any(_matches_subject(subject, user) for subject in rule["subjects"])
    return is_of_user and any(_matches_resource(one, info) for one in rule.get("resourceRules") or ())


def _matches_subject(subject: Document, user: UserInfo) -> bool:
    return _SUBJECTS[subject["kind"]](subject, user)


def _is_user(subject: Document, user: UserInfo) -> bool:
    return subject["user"]["name"] in (_EVERY, user.name)


def _is_in_group(subject: Document, user: UserInfo) -> bool:
    name = subject["group"]["name"]
    return name == _EVERY or name in user.groups


def _is_account(subject: Document, user: UserInfo) -> bool:
    namespace, name = subject["serviceAccount"]["namespace"], subject["serviceAccount"]["name"]
    own = user.name.removeprefix(ACCOUNT_PREFIX)
    if own == user.name:
        return False
    return own.startswith(f"{namespace}:") if name == _EVERY else own == f"{namespace}:{name}"


_SUBJECTS: dict[str, Callable[[Document, UserInfo], bool]] = {
    "User": _is_user,
    "Group": _is_in_group,
    "ServiceAccount": _is_account,
}


def _matches_resource(rule: Document, info: RequestInfo) -> bool:
    resource = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
    wanted = ((rule["verbs"], info.verb), (rule["apiGroups"], info.group), (rule["resources"], resource))
    if not all(_EVERY in names or value in names for names, value in wanted):
        return False
    if not info.namespace:
        return bool(rule.get("clusterScope"))
    namespaces = rule.get("namespaces") or ()
    return _EVERY in namespaces or info.namespace in namespaces
