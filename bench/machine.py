"""Where and when a figure was measured."""

import platform

from pykubelet.aio.clock import SystemClock


def machine() -> dict[str, str]:
    return {
        "date": SystemClock().now().date().isoformat(),
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "processor": platform.machine(),
    }
