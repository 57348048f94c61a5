"""How a simulated container behaves: data, from a test or from the annotations of its pod.

An annotation `sim.pykubelet.dev/<container>: '{"runs": [{"seconds": 2, "exitCode": 1}]}'` is a crash loop.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from pykubelet.aio.learned import learned
from pykubelet.api.generated.core import Pod
from pykubelet.runtime.protocol import RuntimeFailure

ANNOTATION = "sim.pykubelet.dev/"
"""The container's name follows."""

Call = Literal["create", "start", "stop", "run"]


class Run(Struct, frozen=True, gc=False, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One run of a container; without `seconds` it lasts until it is stopped."""

    seconds: float | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""


FOREVER = Run()


class Behaviour(Struct, frozen=True, gc=False, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a container does. The default starts at once, is healthy, runs until it is stopped, and then obeys at once."""

    create_error: str = ""
    start_error: str = ""
    start_seconds: float = 0.0
    runs: tuple[Run, ...] = ()
    """One for each attempt, the last of them for all that follow."""
    stop_seconds: float = 0.0
    """From being told to stop to having stopped; more than the grace means it gets killed."""
    stop_exit_code: int = 0
    is_healthy: bool = True
    """What commands and requests find: 0 and 200, or 1 and 503."""
    hangs_on: tuple[Call, ...] = ()
    """Calls that never answer: a stuck shim."""
    output: tuple[str, ...] = ()
    """What each run writes to its log when it starts."""
    memory_bytes: int = 0
    """What it uses while it runs, likewise below."""
    layer_bytes: int = 0
    processes: int = 1

    def run_of(self, attempt: int) -> Run:
        """What the container does at this attempt."""
        return self.runs[min(attempt, len(self.runs) - 1)] if self.runs else FOREVER


class ImageBehaviour(Struct, frozen=True, gc=False, kw_only=True):
    """An image: whether it is here already, how long a pull takes, and why it fails, if it does."""

    is_present: bool = False
    pull_seconds: float = 0.0
    pull_error: str = ""
    find_error: str = ""
    user: str | None = None
    needs_user: str = ""
    """Only with credentials of this user name it is given."""
    size_bytes: int = 1_000_000
    is_pinned: bool = False
    remove_error: str = ""


def behaviour_of(pod: Pod, container: str, scripts: Mapping[str, Behaviour], default: Behaviour) -> Behaviour:
    """How a container behaves: as its pod's annotation says, else the script of its name, else as all others."""
    annotation = pod.metadata.annotations.get(ANNOTATION + container)
    if annotation is None:
        return scripts.get(container, default)
    try:
        return msgspec.json.decode(annotation, type=learned(Behaviour))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RuntimeFailure(f"annotation {ANNOTATION}{container}: {error}") from error
