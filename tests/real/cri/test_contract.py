"""The runtime that talks CRI keeps what every runtime promises, with a real containerd."""

from contract.test_runtime import *  # noqa: F403  the whole suite, with this folder's fixtures
from contract.test_runtime_extras import *  # noqa: F403  likewise
