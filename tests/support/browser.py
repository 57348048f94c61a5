"""Drives Chromium over its DevTools protocol: what a user does and sees."""

import asyncio
import base64
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from pykubelet.aio.tasks import background_task
from requirements import missing

PATIENCE_SECONDS = 45.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)


class Tab:
    """One browser tab; collects the URLs it requests, script exceptions, and errors and warnings of the console."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        self.requests: list[str] = []

    async def listen(self) -> None:
        """Read the browser's messages until the connection closes."""
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told and not self._answers[told["id"]].done():
                self._answers.pop(told["id"]).set_result(told)
            elif told.get("method") == "Network.requestWillBeSent":
                self.requests.append(told["params"]["request"]["url"])
            elif told.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["params"]["exceptionDetails"])[:500])
            elif told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] in {"error", "warning"}:
                entry = told["params"]["entry"]
                self.complaints.append(f"{entry['text']} {entry.get('url', '')}")

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one DevTools command and return its result."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE_SECONDS):
            told = await answer
        assert "error" not in told, told
        found: dict[str, Any] = told["result"]
        return found

    async def start(self) -> None:
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")

    async def go(self, url: str) -> None:
        """Navigate to a URL; retries on errors, since Chromium aborts when network interfaces change."""
        while "errorText" in await self.call("Page.navigate", url=url):
            await asyncio.sleep(0.2)

    async def run(self, script: str) -> Any:
        """Run a script and return its value."""
        told = await self._evaluate(script)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def _evaluate(self, script: str) -> dict[str, Any]:
        return await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)

    async def until(self, script: str, *, within_seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait until a script returns a true value; a script that throws, as its element is missing, is run again."""
        last: dict[str, Any] = {}
        try:
            async with asyncio.timeout(within_seconds):
                while "exceptionDetails" in (last := await self._evaluate(script)) or not last["result"].get("value"):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            words = await self.run("document.body?.innerText")
            raise AssertionError(f"never true: {script}; the page shows:\n{words}\n{self.complaints}") from None
        return last["result"]["value"]

    async def comes(self, selector: str, *, within_seconds: float) -> bool:
        """Whether an element appears in time."""
        for _ in range(int(within_seconds / 0.1)):
            if await self.run(f"Boolean(document.querySelector({json.dumps(selector)}))"):
                return True
            await asyncio.sleep(0.1)
        return False

    async def until_text(self, text: str) -> None:
        """Wait until the page shows a text."""
        await self.until(f"(document.body?.innerText ?? '').includes({json.dumps(text)})")

    async def press(self, key: str) -> None:
        """Press a key of the keyboard; a single character is typed."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    async def look(self, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Set the window's size and the preferred colour scheme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def shot(self, path: Path) -> None:
        """Write a screenshot of the page."""
        taken = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(taken["data"]))


def require_chromium() -> str:
    """The path of chromium; without it tests fail in CI and are skipped elsewhere."""
    found = shutil.which("chromium")
    if found is None:
        missing("chromium is not installed")
    return found


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """A browser with an empty profile and one tab, for as long as the context lasts."""
    command = [require_chromium(), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    environment = {**os.environ, "HOME": str(folder)}
    process = await asyncio.to_thread(
        subprocess.Popen, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        async with aiohttp.ClientSession() as session:
            url = await _tab_url(session, folder / "DevToolsActivePort")
            async with session.ws_connect(url, max_msg_size=64 << 20) as socket:
                tab = Tab(socket)
                async with background_task(tab.listen(), "browser"):
                    await tab.start()
                    yield tab
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def _tab_url(session: aiohttp.ClientSession, port_file: Path) -> str:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (words := await asyncio.to_thread(_words, port_file)):
            await asyncio.sleep(0.05)
        while True:
            async with session.get(f"http://127.0.0.1:{words[0]}/json/list") as answer:
                tabs = [one for one in await answer.json() if one["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
            await asyncio.sleep(0.05)


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
