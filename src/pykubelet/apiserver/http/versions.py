"""What the server says it is, at /version: the Kubernetes it behaves as, and its own version.

Upstream: staging/src/k8s.io/component-base/version.
"""

import platform
import sys
from functools import cache

from pykubelet import __version__
from pykubelet.api.wire import Document

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@cache
def version_document() -> Document:
    """Every field is a text: some clients refuse a version in which one is missing."""
    machine = platform.machine()
    return {
        "major": "1",
        "minor": "34",
        "emulationMajor": "1",
        "emulationMinor": "34",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "33",
        "gitVersion": f"v1.34.11+pykubelet.{__version__}",
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{_MACHINES.get(machine, machine)}",
    }
