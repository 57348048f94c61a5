"""Hypothesis strategies for policy rules and requests over a small vocabulary, so that they often match."""

from hypothesis import strategies as st

from access_objects import ALICE
from pykubelet.apiserver.authorization.rbac import PolicyRule
from pykubelet.apiserver.request import AuthorizationAttributes

VERBS = ("get", "list", "*")
GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "pods/status", "pods/*", "*/scale", "*/status", "*")
NAMES = ("a", "b")
PATHS = ("/healthz", "/healthz/*", "/*", "*", "/version")


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


RULES = st.one_of(
    st.builds(PolicyRule, verbs=some(VERBS), groups=some(GROUPS), resources=some(RESOURCES), names=some(NAMES)),
    st.builds(PolicyRule, verbs=some(VERBS), paths=some(PATHS)),
)
REVIEWS = st.one_of(
    st.builds(
        lambda verb, group, resource, sub, name: AuthorizationAttributes(
            user=ALICE, verb=verb, group=group, resource=resource, subresource=sub, name=name, path="/ignored"
        ),
        st.sampled_from(("get", "list", "watch")),
        st.sampled_from(("", "apps", "batch")),
        st.sampled_from(("pods", "jobs")),
        st.sampled_from(("", "status", "scale")),
        st.sampled_from(("", "a", "c")),
    ),
    st.builds(
        lambda verb, path: AuthorizationAttributes(user=ALICE, verb=verb, path=path),
        st.sampled_from(("get", "list")),
        st.sampled_from(("/healthz", "/healthz/etcd", "/version", "/api")),
    ),
)
