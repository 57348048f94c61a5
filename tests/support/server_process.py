"""A real `pykubelet apiserver` for tests, on a free loopback port."""

import ssl
from pathlib import Path

from pykubelet_process import PykubeletProcess

ADMIN_TOKEN = "admin-token"


class ServerProcess(PykubeletProcess):
    """One server on one data folder; started again it has the same port."""

    def __init__(self, folder: Path, *options: str, tokens: str = "") -> None:
        super().__init__()
        self.folder = folder
        self.data = folder / "data"
        self.token_file = folder / "tokens.csv"
        self.token_file.write_text(f'{ADMIN_TOKEN},admin,admin-uid,"system:masters"\n{tokens}')
        self._options = options
        self.port = 0
        self.url = ""

    @property
    def kubeconfig(self) -> Path:
        return self.data / "admin.kubeconfig"

    def command(self) -> list[str]:
        data, tokens = str(self.data), str(self.token_file)
        return ["apiserver", "--data-dir", data, "--port", str(self.port), "--token-file", tokens, *self._options]

    def start(self) -> "ServerProcess":
        """Start it and wait until it says that it is ready."""
        self.url = self.start_up()
        self.port = int(self.url.rpartition(":")[2])
        return self

    def tls(self) -> ssl.SSLContext:
        """Trusts exactly this server."""
        return ssl.create_default_context(cafile=str(self.data / "pki" / "ca.crt"))
