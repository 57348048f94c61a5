"""The control groups of a container, as far as the supervisor handles them: made, asked, removed."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any


def make(groups: Sequence[Mapping[str, Any]]) -> None:
    """Make the groups and set their limits; OSError if one cannot be set."""
    for group in groups:
        os.makedirs(group["path"], exist_ok=True)
        for name, value in group["values"]:
            handle = os.open(f"{group['path']}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(handle, str(value).encode())
            finally:
                os.close(handle)


def ran_out_of_memory(groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the kernel killed something in them for want of memory."""
    for group in groups:
        # The names in version 2 and 1.
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError), open(f"{group['path']}/{name}", encoding="ascii") as file:
                facts = dict(line.split() for line in file)
                if int(facts.get("oom_kill", 0)) > 0:
                    return True
    return False


def remove(groups: Sequence[Mapping[str, Any]]) -> None:
    """Remove them; one that is not empty yet stays."""
    for group in groups:
        with suppress(OSError):
            os.rmdir(group["path"])
