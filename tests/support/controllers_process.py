"""A real `pykubelet controllers` for tests."""

from pathlib import Path

from pykubelet_process import PykubeletProcess


class ControllersProcess(PykubeletProcess):
    """One program with one kubeconfig."""

    def __init__(self, kubeconfig: Path, *options: str) -> None:
        super().__init__()
        self._kubeconfig, self._options = kubeconfig, options

    def command(self) -> list[str]:
        return ["controllers", "--kubeconfig", str(self._kubeconfig), *self._options]

    def start(self) -> "ControllersProcess":
        """Start it and wait until it works."""
        assert self.start_up() == "controllers"
        return self
