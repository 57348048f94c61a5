"""What tests need of the machine. What is missing fails them in CI, whose machine must have it, and skips them elsewhere."""

import os
from typing import NoReturn

import pytest

from pykubelet.runtimes.process.shim.namespace import find_namespace_method
from pykubelet.runtimes.process.shim.rootfs import NO_NAMESPACE

_IS_CI, _IS_ROOT = bool(os.environ.get("CI")), os.geteuid() == 0


def missing(reason: str) -> NoReturn:
    """Fails the test in CI and skips it elsewhere."""
    if _IS_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def needs(found: object, reason: str) -> pytest.MarkDecorator:
    """Marks tests that need what was looked for; in CI they run without it, too, and fail."""
    return pytest.mark.skipif(not (found or _IS_CI), reason=reason)


has_mount_namespaces = find_namespace_method() != NO_NAMESPACE
needs_mount_namespaces = needs(has_mount_namespaces, "this user cannot make mount namespaces")
needs_root = needs(_IS_ROOT, "only root may do this, or become the ordinary user of the test")
needs_ordinary_user = pytest.mark.skipif(_IS_ROOT, reason="root has the right that an ordinary user does not have")
"""The counterpart of a test that needs root."""
