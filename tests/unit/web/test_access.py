"""Access to the page: keys, sessions, hosts, routes and headers."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.web.access import (
    HEADERS,
    MOST_SESSIONS,
    Sessions,
    is_from_elsewhere,
    is_own_host,
    session_cookie,
    session_of,
)
from pykubelet.web.routes import PagePart, PageRoute, route

PLACE = "/view/secret/"


def sessions() -> Sessions:
    numbers = count()
    return Sessions(lambda: f"secret-{next(numbers)}")


def test_key_works_once() -> None:
    """Redeeming it creates a session and a new key; the session stays valid."""
    known = sessions()
    key = known.key
    session = known.redeem(key)
    assert session is not None
    assert known.is_known(session)
    assert known.redeem(key) is None
    assert known.key != key
    assert known.redeem(known.key) not in (None, session)


@given(st.text())
def test_wrong_key_changes_nothing(key: str) -> None:
    """The current key stays valid, and a repr does not show it."""
    known = sessions()
    before = known.key
    if key != before:
        assert known.redeem(key) is None
        assert known.key == before
        assert not known.is_known(key)
        assert before not in repr(known)


def test_oldest_session_goes_when_there_are_too_many() -> None:
    """The number of sessions is bounded."""
    known = sessions()
    begun = [known.redeem(known.key) or "" for _ in range(MOST_SESSIONS + 1)]
    assert [known.is_known(one) for one in begun] == [False, *[True] * MOST_SESSIONS]


HOSTS = {
    "127.0.0.1:6480": True,
    "localhost:6480": True,
    "LOCALHOST:6480": True,
    "127.0.0.1": False,
    "127.0.0.1:6481": False,
    "evil.example:6480": False,
    "evil.example": False,
    "": False,
}


@pytest.mark.parametrize(("host", "is_own"), HOSTS.items())
def test_only_loopback_host_names_are_accepted(host: str, is_own: bool) -> None:
    """Other host names that resolve to this machine are rejected (DNS rebinding)."""
    assert is_own_host(host, 6480) is is_own


def test_requests_from_other_sites_are_detected() -> None:
    """Another port of this machine counts as another site, although cookies ignore ports."""
    assert [is_from_elsewhere(site) for site in ("", "none", "same-origin")] == [False] * 3
    assert [is_from_elsewhere(site) for site in ("same-site", "cross-site", "Cross-Site")] == [True] * 3


def test_session_is_found_among_cookies() -> None:
    """The cookie is HttpOnly and SameSite=Strict."""
    cookie = session_cookie("abc", PLACE)
    assert cookie == "pykubelet-page=abc; Path=/view/secret/; HttpOnly; SameSite=Strict"
    assert session_of("a=b; pykubelet-page=abc; c") == "abc"
    assert session_of("pykubelet-pages=abc") == session_of("") == ""


def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    """No inline scripts, no framing, no content sniffing, no caching."""
    headers = dict(HEADERS)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


ROUTES = {
    "/": PageRoute(PagePart.ENTRANCE),
    "/?key=a%20b": PageRoute(PagePart.ENTRANCE, (), (("key", "a b"),)),
    "/static/app.js": PageRoute(PagePart.STATIC, ("app.js",)),
    "/view/secret/": PageRoute(PagePart.INDEX),
    "/view/secret/#here": PageRoute(PagePart.INDEX),
    "/view/secret/stream": PageRoute(PagePart.STREAM),
    "/view/secret/pods/default/web": PageRoute(PagePart.POD, ("default", "web")),
    "/view/secret/logs/default/web/main?previous=true": PageRoute(
        PagePart.LOG, ("default", "web", "main"), (("previous", "true"),)
    ),
    "/view/secret/objects?plural=pods": PageRoute(PagePart.OBJECTS, (), (("plural", "pods"),)),
    "/view/secret/pods/default": None,
    "/view/secret/pods//web": None,
    "/view/other/stream": None,
    "/view/secret/nothing": None,
    "/static/a/b": None,
    "/nothing": None,
    "/?" + "a=b&" * 50: None,
}


@pytest.mark.parametrize(("target", "found"), ROUTES.items())
def test_route_finds_the_part_of_the_page(target: str, found: PageRoute | None) -> None:
    """An unknown path has no route."""
    assert route(target, PLACE) == found


def test_first_value_of_a_query_parameter_counts() -> None:
    asked = PageRoute(PagePart.OBJECTS, (), (("a", "1"), ("a", "2")))
    assert (asked.value("a"), asked.value("b")) == ("1", "")


@given(st.text())
def test_any_target_is_routed_or_refused(target: str) -> None:
    """Outside the page's secret path only parts without a session are routed."""
    found = route(f"/{target}", PLACE)
    assert found is None or found.part in {PagePart.ENTRANCE, PagePart.STATIC}
