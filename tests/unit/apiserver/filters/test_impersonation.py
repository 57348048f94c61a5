"""The Impersonate headers: the rights they need, and the user they give."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest
from pykubelet.apiserver.filters.access import asks_to_impersonate, impersonation
from pykubelet.apiserver.request import AuthorizationAttributes, UserInfo

ADMIN = UserInfo("admin", ("system:masters",))


def asks(**what: str) -> AuthorizationAttributes:
    return AuthorizationAttributes(user=ADMIN, verb="impersonate", version="v1", **what)


@pytest.mark.parametrize(
    ("headers", "user", "reviews"),
    [
        pytest.param(
            [("Impersonate-User", "jane")],
            UserInfo("jane", ("system:authenticated",)),
            [asks(resource="users", name="jane")],
            id="user",
        ),
        pytest.param(
            [("impersonate-user", "jane"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")],
            UserInfo("jane", ("dev", "ops", "system:authenticated")),
            [
                asks(resource="users", name="jane"),
                asks(resource="groups", name="dev"),
                asks(resource="groups", name="ops"),
            ],
            id="groups",
        ),
        pytest.param(
            [("Impersonate-User", "system:serviceaccount:ns:sa")],
            UserInfo(
                "system:serviceaccount:ns:sa",
                ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            ),
            [asks(resource="serviceaccounts", namespace="ns", name="sa")],
            id="service account",
        ),
        pytest.param(
            [("Impersonate-User", "system:anonymous")],
            UserInfo("system:anonymous", ("system:unauthenticated",)),
            [asks(resource="users", name="system:anonymous")],
            id="anonymous",
        ),
        pytest.param(
            [
                ("Impersonate-User", "jane"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Extra-Acme.com%2fScope", "a"),
                ("Impersonate-Extra-Acme.com%2fScope", "b"),
            ],
            UserInfo("jane", ("system:authenticated",), "7", {"acme.com/scope": ("a", "b")}),
            [
                asks(resource="users", name="jane"),
                asks(group="authentication.k8s.io", resource="userextras", subresource="acme.com/scope", name="a"),
                asks(group="authentication.k8s.io", resource="userextras", subresource="acme.com/scope", name="b"),
                asks(group="authentication.k8s.io", resource="uids", name="7"),
            ],
            id="uid and extra",
        ),
    ],
)
def test_impersonation_gives_the_user_and_what_must_be_allowed(
    headers: list[tuple[str, str]], user: UserInfo, reviews: list[AuthorizationAttributes]
) -> None:
    """The cases cover each kind of header."""
    assert asks_to_impersonate(name for name, _ in headers)
    asked = impersonation(headers, ADMIN)
    assert (asked.user, list(asked.required)) == (user, reviews)


@pytest.mark.parametrize("header", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-x"])
def test_impersonation_refuses_anything_without_a_user(header: str) -> None:
    """A group, UID or extra field alone is not an identity."""
    with pytest.raises(BadRequest):
        impersonation([(header, "x")], ADMIN)


def test_impersonation_is_not_requested_without_its_headers() -> None:
    """An empty user name requests none either."""
    assert not asks_to_impersonate(["Accept", "X-Impersonate-User"])
    assert impersonation([("Impersonate-User", "")], ADMIN).user is ADMIN


@given(st.lists(st.sampled_from(["dev", "system:authenticated", "system:unauthenticated", "system:masters"])))
@settings(max_examples=50)
def test_impersonation_never_gives_a_group_that_was_not_reviewed(groups: list[str]) -> None:
    """Every group is reviewed, except the one that every user is in."""
    asked = impersonation([("Impersonate-User", "jane"), *(("Impersonate-Group", group) for group in groups)], ADMIN)
    reviewed = {review.name for review in asked.required if review.resource == "groups"}
    assert set(asked.user.groups) - reviewed <= {"system:authenticated"}
