"""Links of proxied pages: those to the page's own host get the path of the proxy, everything else stays."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.podproxy.links import ProxiedLinks, is_page

_PREFIX = "/api/v1/namespaces/ns/pods/web:80/proxy"
_LINKS = ProxiedLinks(_PREFIX, "10.0.0.5:80", "localhost:8001")
_HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/", f"{_PREFIX}/"),
        ("/style.css?v=1#top", f"{_PREFIX}/style.css?v=1#top"),
        ("/a/../b//c/", f"{_PREFIX}/b/c/"),
        ("http://10.0.0.5:80/a", f"{_PREFIX}/a"),
        ("//10.0.0.5:80/a", f"{_PREFIX}/a"),
        ("http://localhost:8001/a", f"http://localhost:8001{_PREFIX}/a"),
        (f"{_PREFIX}/a", f"{_PREFIX}/a"),
        (_PREFIX, _PREFIX),
        (f"{_PREFIX}-two/a", f"{_PREFIX}{_PREFIX}-two/a"),
    ],
)
def test_link_to_the_host_of_the_page_leads_through_the_proxy(url: str, expected: str) -> None:
    """The host is the pod's, or the one that the client asked for; a link with the prefix already is right."""
    assert _LINKS.link(url) == expected


@pytest.mark.parametrize(
    "url", ["", "a/b", "../a", "#top", "?page=2", "http://example.com/a", "//example.com/a", "mailto:a@b", "data:,/a"]
)
def test_other_links_stay(url: str) -> None:
    """Relative links work through the proxy anyway, and other hosts are not behind it."""
    assert _LINKS.link(url) == url


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/x">/x</a>', f'<a href="{_PREFIX}/x">/x</a>'),
        ("<A HREF='/x?a=1&amp;b=2'>", f"<A HREF='{_PREFIX}/x?a=1&amp;b=2'>"),
        ("<img src=/x.png alt=/y>", f'<img src="{_PREFIX}/x.png" alt=/y>'),
        ('<img/src = "/x" longdesc="/y"/>', f'<img/src = "{_PREFIX}/x" longdesc="{_PREFIX}/y"/>'),
        ('<a title="<a href=/y>" href="/x">', f'<a title="<a href=/y>" href="{_PREFIX}/x">'),
        ('<!-- <a href="/x"> --><link href="/y">', f'<!-- <a href="/x"> --><link href="{_PREFIX}/y">'),
        ('<script src="/x">"<a href=\'/y\'>"</script>', f'<script src="{_PREFIX}/x">"<a href=\'/y\'>"</script>'),
        ('<a hidden href="/x" href="é">', f'<a hidden href="{_PREFIX}/x" href="é">'),
        ('<p href="/x">a < b <a', '<p href="/x">a < b <a'),
    ],
)
def test_page_has_the_links_of_its_tags_rewritten(page: str, expected: str) -> None:
    """Only in attributes that hold a URL; comments and scripts are no tags."""
    assert _LINKS.page(page) == expected


@given(st.text("<>/!-=\"' \nasrchef&;", max_size=60))
def test_any_text_ends_and_relative_links_leave_it_as_it_is(text: str) -> None:
    """Nothing is lost or reordered, however broken the page is."""
    assert ProxiedLinks("", "", "").page(text) == text


@pytest.mark.parametrize("broken", ["<a ", "<a href=", '<a b="', "<!--", "<a/", "< a=='", "<script>", "<a b =  "])
def test_a_broken_page_costs_one_pass(broken: str) -> None:
    """A megabyte of what never ends; a scan per occurrence would take minutes."""
    page = broken * (2**20 // len(broken))
    assert _LINKS.page(page) == page


def test_response_has_the_length_of_the_new_page() -> None:
    """Bytes that are not UTF-8 stay."""
    head = _HTML + b"Content-Length: 12\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n"
    response = _LINKS.response(head, b"\xff<a href=/x>", 100)
    page = f'<a href="{_PREFIX}/x">'.encode()
    assert response == _HTML + b"X: y\r\nContent-Length: %d\r\n\r\n\xff" % (len(page) + 1) + page


def test_compressed_page_stays_compressed_and_has_a_limit() -> None:
    """What is malformed or unpacks to more than the limit is an error."""
    head = _HTML + b"Content-Encoding: gzip\r\n\r\n"
    packed = gzip.compress(b"<a href=/x>" + b" " * 1000)
    content = _LINKS.response(head, packed, 2000).partition(b"\r\n\r\n")[2]
    assert gzip.decompress(content).startswith(f'<a href="{_PREFIX}/x">'.encode())
    for body, most in ((packed, 1000), (packed[:-9], 2000), (b"no gzip", 2000)):
        with pytest.raises(ValueError, match=r"too long|header"):
            _LINKS.response(head, body, most)


def test_redirect_leads_through_the_proxy() -> None:
    """Only the Location header changes."""
    head = b"HTTP/1.1 302 Found\r\nX-Location: /a\r\nlocation: /login\r\n\r\n"
    assert _LINKS.response_head(head) == head.replace(b": /login", f": {_PREFIX}/login".encode())


def test_only_html_with_content_is_a_page() -> None:
    """A HEAD request has no content, nor has a redirect one that is shown; unknown encodings pass unchanged."""
    assert is_page("GET", 404, _HTML + b"Content-Encoding: GZIP\r\n\r\n")
    assert not is_page("HEAD", 200, _HTML + b"\r\n")
    assert not is_page("GET", 304, _HTML + b"\r\n")
    assert not is_page("GET", 302, _HTML + b"Location: /\r\n\r\n")
    assert not is_page("GET", 200, _HTML + b"Content-Encoding: br\r\n\r\n")
    assert not is_page("GET", 200, b"HTTP/1.1 200 OK\r\nContent-Type: text/html2\r\n\r\n")
