"""Reads the kubeconfig that a program was given."""

import os
from collections.abc import Sequence
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.app.settings import CannotStart
from pykubelet.kube.access import Access
from pykubelet.kube.kubeconfig import load_kubeconfig
from pykubelet.kube.kubeconfig_merge import KubeconfigError

KUBECONFIG = "admin.kubeconfig"
"""What an API server calls the one it writes, in its folder."""
LOCAL = f".pykubelet/{KUBECONFIG}"
"""Where `pykubelet up` leaves one, in the folder it was started in."""


def access_of(kubeconfig: Path, clock: Clock) -> Access:
    """How to reach the API server; CannotStart if the file does not say."""
    return _access((str(kubeconfig),), clock)


def access_found(kubeconfig: Path | None, clock: Clock) -> Access:
    """The same by the file that was named, else by those of KUBECONFIG, else by what `pykubelet up` left here."""
    if kubeconfig is not None:
        return access_of(kubeconfig, clock)
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return _access(named or (LOCAL,), clock)


def _access(paths: Sequence[str], clock: Clock) -> Access:
    try:
        return load_kubeconfig(paths, environment=os.environ, clock=clock)
    except KubeconfigError as error:
        raise CannotStart(str(error)) from error
