"""The process runtime passes the contract suite of all runtimes, with real processes."""

from contract.test_runtime import *  # noqa: F403  the whole suite, with this folder's fixtures
from contract.test_runtime_extras import *  # noqa: F403  likewise
