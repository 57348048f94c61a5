"""Names of users and groups with a meaning: nodes and service accounts (pure).

Upstream: pkg/auth/nodeidentifier/default.go, staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go
"""

from dataclasses import replace

from pykubelet.apiserver.call import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS_NAME, User

NODE_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"
ACCOUNT_PREFIX = "system:serviceaccount:"
ACCOUNTS_GROUP = "system:serviceaccounts"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"


def node_of(user: User) -> str | None:
    """The name of the node that asks; None if the user is no node, empty if it is a node without a name."""
    if not user.name.startswith(NODE_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return user.name.removeprefix(NODE_PREFIX)


def account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups every service account of a namespace is in."""
    return (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{namespace}")


def authenticated(user: User) -> User:
    """The user in the group of all that are known, unless its groups say already whether it is."""
    if user.name == ANONYMOUS_NAME or {ALL_AUTHENTICATED, ALL_UNAUTHENTICATED} & set(user.groups):
        return user
    return replace(user, groups=(*user.groups, ALL_AUTHENTICATED))
