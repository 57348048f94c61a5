"""The page with a thousand pods."""

from pathlib import Path

import pytest

from page_lab import page_of_up

pytestmark = pytest.mark.timeout(300)
MANY = 1000
ROWS = "document.querySelectorAll('.body .row').length"
TOTAL = "document.querySelector('.total').innerText"
NAME = "document.querySelector('.row.active .c-name').innerText"


async def test_thousand_pods_are_usable(tmp_path: Path) -> None:
    """Only visible rows exist, filter and keyboard reach any pod, and changes still arrive."""
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
