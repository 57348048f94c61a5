"""The page at a thousand pods, and of a node on its own."""

import asyncio
from pathlib import Path

import pytest

from browser import browser
from node_process import NodeProcess
from page_lab import PageLab, page_of_up

pytestmark = pytest.mark.timeout(300)
MANY = 1000
ROWS = "document.querySelectorAll('.body .row').length"
TOTAL = "document.querySelector('.total').innerText"
NAME = "document.querySelector('.row.active .c-name').innerText"
LAST = "[...document.querySelectorAll('.body .row')].pop().innerText"


async def test_thousand_pods_are_usable(tmp_path: Path) -> None:
    """Few rows exist at a time, the filter finds one of them, the keyboard reaches the last, and changes still come."""
    async with page_of_up(tmp_path) as lab:
        await lab.sign_in()
        await lab.kubectl("create", "deployment", "crowd", "--image=example/image:1", f"--replicas={MANY}")
        await lab.tab.until(f"{TOTAL} === '{MANY}'", within_seconds=120)
        assert 5 < await lab.tab.run(ROWS) < 60
        await lab.tab.run("document.querySelector('.rows').focus()")
        await lab.tab.press("End")
        await lab.tab.until("document.querySelector('.rows').scrollTop > 30000")
        name = await lab.tab.until(NAME)
        assert await lab.tab.run(ROWS) < 60
        await lab.tab.press("/")
        await lab.tab.run(f"document.execCommand('insertText', false, '{name}')")
        await lab.tab.until(f"{ROWS} === 1")
        await lab.kubectl("scale", "deployment", "crowd", "--replicas=0")
        await lab.tab.until(f"{TOTAL} === '0 of 0'", within_seconds=120)


async def test_page_of_a_node_on_its_own_shows_its_static_pods(tmp_path: Path) -> None:
    """Without an API server: its pods, their stations, why; and that there are no objects to be read."""
    manifest = tmp_path / "web.yaml"
    manifest.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: 'a:1'}]}}"
    )
    node = NodeProcess(tmp_path, "--manifests", str(manifest), "--runtime", "sim")
    try:
        await asyncio.to_thread(node.start)
        async with browser(tmp_path / "profile") as tab:
            lab = PageLab(node, tmp_path / "node", tab)
            assert node.has_said("page http://127.0.0.1:")
            await lab.sign_in()
            await tab.until(f"{ROWS} === 1 && {LAST}.includes('Running')")
            assert await tab.run("document.querySelector('.s-server .number').textContent") == "none"
            await tab.run("location.hash = '#/pod/default/web-node-1'")
            await tab.until_text("Waits for nothing")
            await tab.run("location.hash = '#/events'")
            await tab.until_text("this node runs without an API server")
            manifest.unlink()
            await tab.run("location.hash = '#/pods'")
            await tab.until_text("No pods yet")
            assert lab.faults() == []
    finally:
        node.kill()
