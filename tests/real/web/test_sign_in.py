"""Access to the page of a real `pykubelet up`: a link that works once, and no cross-site requests."""

import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from page_lab import UpLab, page_of_up
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[UpLab]:
    async with page_of_up(tmp_path) as made:
        yield made


async def get(url: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of a response, without following redirects."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, headers=named, allow_redirects=False) as answer,
    ):
        return answer.status, await answer.text(), dict(answer.headers)


async def test_link_signs_a_browser_in_once(lab: UpLab) -> None:
    """The key disappears from the address bar; a used link gives 403 and names the file with the next one."""
    used = lab.link
    assert lab.process.has_said(f"page {used}")
    await lab.sign_in()
    assert "key" not in await lab.tab.run("location.href")
    assert lab.link != used
    assert lab.link_file.stat().st_mode & 0o777 == 0o600
    code, words, _ = await get(used)
    assert code == 403
    assert str(lab.link_file) in words
    assert lab.link.rpartition("=")[2] not in words
    code, _, headers = await get(lab.link)
    assert code == 303
    assert {"HttpOnly", "SameSite=Strict"} <= set(headers["Set-Cookie"].split("; "))
    assert "key" not in headers["Location"]
    assert await lab.tab.run("document.cookie") == ""


async def test_cookie_is_shown_to_no_other_port(lab: UpLab) -> None:
    """Cookies are not bound to a port, so a secret path keeps ours from a pod's web server."""
    await lab.sign_in()
    async with aiohttp.ClientSession() as session, session.get(lab.link, allow_redirects=False) as answer:
        place = answer.headers["Location"]
        assert f"Path={place};" in answer.headers["Set-Cookie"]
    assert len(place) > 40
    assert place == await lab.tab.run("location.pathname")
    code, _, _ = await get(f"{lab.address}{place}stream")
    assert code == 401


async def test_requests_from_elsewhere_are_refused(lab: UpLab) -> None:
    """Requests with another host name, without a session, of another site, or other than GET are refused."""
    async with aiohttp.ClientSession() as session, session.get(lab.link, allow_redirects=False) as answer:
        place, cookie = answer.headers["Location"], answer.headers["Set-Cookie"].partition(";")[0]
    kinds = f"{lab.address}{place}kinds"
    assert (await get(kinds, Cookie=cookie))[0] == 200
    assert (await get(kinds))[0] == 401
    assert (await get(kinds, Cookie="pykubelet-page=wrong"))[0] == 401
    assert (await get(kinds, Cookie=cookie, Host="evil.example"))[0] == 421
    assert (await get(lab.link, Host=f"evil.example:{lab.address.rpartition(':')[2]}"))[0] == 421
    assert (await get(kinds, Cookie=cookie, Sec_Fetch_Site="same-site"))[0] == 403
    assert (await get(kinds, "POST", Cookie=cookie))[0] == 405
    assert (await get(lab.link, "HEAD"))[0] == 403
    assert (await get(lab.address + "/static/..%2fpage.py"))[0] == 404
    code, _, headers = await get(lab.link)
    assert code == 303
    assert headers["X-Frame-Options"] == "DENY"
    assert "script-src 'self'" in headers["Content-Security-Policy"]


async def test_open_page_reports_that_a_restart_ended_its_session(lab: UpLab) -> None:
    """The page names the file with the new link."""
    await lab.sign_in()
    port = lab.address.rpartition(":")[2]
    lab.process.stop()
    await lab.tab.until("document.querySelector('.link.lost') !== null")
    again = UpProcess(lab.manifests.parent, "--page-port", port, runtime="sim")
    try:
        again.start()
        await lab.tab.until_text("signed out")
        assert "page-link" in await lab.tab.run("document.querySelector('.link').innerText")
    finally:
        again.kill()
    lab.tab.complaints.clear()


def test_open_option_starts_the_browser_with_the_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The BROWSER variable names the program."""
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new; mv {opened}.new {opened}\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(program))
    up = UpProcess(tmp_path, "--open", runtime="sim")
    try:
        up.start()
        assert up.has_said("page http://127.0.0.1:", within_seconds=20)
        link = (up.data / "page-link").read_text().strip()
        pause = threading.Event()
        while not opened.exists():
            pause.wait(0.05)
        assert opened.read_text() == link
    finally:
        up.kill()


def test_taken_port_is_no_reason_not_to_start(tmp_path: Path) -> None:
    """The page moves to another port and reports it; with --no-page there is no page."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first = UpProcess(tmp_path, "--page-port", str(port), runtime="sim")
        try:
            first.start()
            assert first.has_said(f"port {port} is taken: the page is on ", within_seconds=20)
            assert first.has_said("page http://127.0.0.1:", within_seconds=20)
            assert (first.data / "page-link").exists()
            assert first.stop() == 0
            assert not (first.data / "page-link").exists()
        finally:
            first.kill()
    second = UpProcess(tmp_path, "--no-page", runtime="sim")
    try:
        second.start()
        assert not [line for line in second.lines if line.startswith("page ")]
        assert second.stop() == 0
    finally:
        second.kill()
