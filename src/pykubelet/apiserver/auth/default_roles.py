"""The default roles and bindings as documents, from the table in default_roles.txt (pure).

Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{policy,controller_policy,namespace_policy}.go
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from pykubelet.api.wire import Document
from pykubelet.apiserver.auth.bindings import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    ROLE_BINDINGS,
    ROLES,
)
from pykubelet.apiserver.auth.rules import Rule, read_rules
from pykubelet.apiserver.store import Key

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_API_VERSION = f"{GROUP}/v1"
_JOINS = f"{GROUP}/aggregate-to-"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_VERBS = {"READ": _READ, "WRITE": _WRITE, "READ+WRITE": tuple(sorted((*_READ, *_WRITE)))}
_EVENTS = "create patch update | core events.k8s.io | events"
_CONTROLLERS = "system:controller:"
_SUBJECTS = {"user": "User", "group": "Group", "account": "ServiceAccount"}


@cache
def default_roles() -> tuple[tuple[Key, Document], ...]:
    """Every default role and binding with its key; they lack only what the server gives (uid, times)."""
    text = files(__package__).joinpath("default_roles.txt").read_text(encoding="utf-8")
    return tuple((_key(document), document) for document in _documents(text))


def node_rules() -> tuple[Rule, ...]:
    """The rules of `system:node`."""
    return next(read_rules(role["rules"]) for key, role in default_roles() if key.name == "system:node")


def _documents(text: str) -> Iterator[Document]:
    role: Document = {}
    for line in text.splitlines():
        if line.startswith("  "):
            role["rules"].append(_rule(line.strip()).document)
            continue
        word, _, rest = line.partition(" ")
        if word == "role":
            yield (role := _role(rest.split()))
        elif word == "controller":
            yield (role := _role([_CONTROLLERS + rest]))
            yield _binding([_CONTROLLERS + rest, f"account=kube-system/{rest}"])
        elif word == "bind":
            yield _binding(rest.split())


def _role(words: list[str]) -> Document:
    metadata = _metadata(words[0])
    role: Document = {"kind": "Role" if "namespace" in metadata else "ClusterRole", "apiVersion": _API_VERSION}
    role |= {"metadata": metadata, "rules": []}
    for option, _, value in (word.partition("=") for word in words[1:]):
        label = {_JOINS + value: "true"}
        if option == "joins":
            metadata["labels"] |= label
        else:
            role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": label}]}
    return role


def _rule(line: str) -> Rule:
    verbs, groups, what, *names = (part.split() for part in (_EVENTS if line == "EVENTS" else line).split(" | "))
    allowed = tuple(verb for word in verbs for verb in _VERBS.get(word, (word,)))
    if groups == ["paths"]:
        return Rule(verbs=allowed, paths=tuple(what))
    return Rule(
        verbs=allowed,
        groups=tuple("" if group == "core" else group for group in groups),
        resources=tuple(what),
        names=tuple(names[0]) if names else (),
    )


def _binding(words: list[str]) -> Document:
    metadata = _metadata(words[0])
    role, namespaced = metadata["name"], "namespace" in metadata
    subjects: list[Document] = []
    for option, _, value in (word.partition("=") for word in words[1:]):
        if option == "role":
            role = value
        else:
            subjects.append(_subject(_SUBJECTS[option], value))
    binding: Document = {
        "kind": "RoleBinding" if namespaced else "ClusterRoleBinding",
        "apiVersion": _API_VERSION,
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": "Role" if namespaced else "ClusterRole", "name": role},
    }
    return binding | ({"subjects": subjects} if subjects else {})


def _subject(kind: str, value: str) -> Document:
    if kind == "ServiceAccount":
        namespace, _, name = value.partition("/")
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"apiGroup": GROUP, "kind": kind, "name": value}


def _metadata(name: str) -> Document:
    namespace, slash, plain = name.partition("/")
    metadata: Document = {"name": plain, "namespace": namespace} if slash else {"name": name}
    metadata["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    metadata["annotations"] = {AUTOUPDATE: "true"}
    return metadata


def _key(document: Document) -> Key:
    collections = {
        "Role": ROLES,
        "ClusterRole": CLUSTER_ROLES,
        "RoleBinding": ROLE_BINDINGS,
        "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
    }
    metadata = document["metadata"]
    return Key(collections[document["kind"]], metadata.get("namespace", ""), metadata["name"])
