"""A real program with its page, opened in a real browser."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from browser import Tab, browser
from kubectl import Kubectl
from process_lab import end_containers
from pykubelet_process import PykubeletProcess, UpProcess

# Expected messages in the console: networks of other programs' containers come and go; the page requests a deleted pod
# once more, and a simulated container has no log.
_EXPECTED = re.compile(r"net::ERR_NETWORK_CHANGED|status of 404 .*/(?:pods|logs)/")


class PageLab:
    """A program that serves the page, a tab, and the file in `folder` with the page's link."""

    def __init__(self, process: PykubeletProcess, folder: Path, tab: Tab) -> None:
        self.process, self.link_file, self.tab = process, folder / "page-link", tab

    @property
    def link(self) -> str:
        """The link that is valid now."""
        return self.link_file.read_text().strip()

    @property
    def address(self) -> str:
        """The address of the page, without a key."""
        parts = urlsplit(self.link)
        return f"{parts.scheme}://{parts.netloc}"

    async def sign_in(self, view: str = "#/pods") -> None:
        """Open the page by its link and go to a view."""
        for _ in range(6):
            await self.tab.go(self.link)
            if await self.tab.comes(".link.live", within_seconds=10):
                break
        await self.tab.run(f"location.hash = {view!r}")
        await self.tab.until("document.querySelector('#view').childElementCount > 0")

    def faults(self) -> list[str]:
        """Unexpected errors and warnings of scripts and the console, and requests to other hosts."""
        away = [url for url in self.tab.requests if not url.startswith((self.address, "about:"))]
        return [line for line in self.tab.complaints if not _EXPECTED.search(line)] + away


class UpLab(PageLab):
    """A `pykubelet up` with a folder of manifests, and kubectl."""

    def __init__(self, process: UpProcess, tab: Tab, manifests: Path, kubectl: Kubectl) -> None:
        super().__init__(process, process.data, tab)
        self.manifests, self._kubectl = manifests, kubectl

    async def kubectl(self, *arguments: str, text: str = "") -> str:
        return await asyncio.to_thread(self._kubectl, *arguments, text=text)


@asynccontextmanager
async def page_of_up(folder: Path, *, runtime: str = "sim", **files: str) -> AsyncIterator[UpLab]:
    """A `pykubelet up` with these manifests and its page in a tab; at the end no errors may have been logged."""
    manifests = folder / "manifests"
    manifests.mkdir()
    for name, text in files.items():
        (manifests / f"{name}.yaml").write_text(text)
    process = UpProcess(folder, str(manifests), runtime=runtime)
    try:
        await asyncio.to_thread(process.start)
        async with browser(folder / "profile") as tab:
            kubectl = Kubectl(process.kubeconfig, "default", folder / "cache")
            lab = UpLab(process, tab, manifests, kubectl)
            yield lab
            assert lab.faults() == []
            assert [line for line in process.lines if "Traceback" in line or " E " in line] == []
    finally:
        if process.is_running:
            await asyncio.to_thread(process.kill)
        if runtime == "process":
            await asyncio.to_thread(end_containers, process.data / "node" / "process")
