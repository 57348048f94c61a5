"""`pykubelet controllers` as a program: controllers for an API server; of several, one works."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import RandomIds
from pykubelet.api.generated.core import EventSource
from pykubelet.app import program
from pykubelet.app.controllers import CONTROLLERS, ControllerClient, controllers
from pykubelet.app.kubeconfigs import access_of
from pykubelet.app.program import Say, tune_garbage_collection
from pykubelet.app.running import Runner, running, with_event
from pykubelet.app.settings import CannotStart, ControllersSettings
from pykubelet.kube.credential_error import CredentialError
from pykubelet.kube.leader import LeaderElector
from pykubelet.kube.leader_plan import identity_of
from pykubelet.kube.pem_files import Pem, pem_text
from pykubelet.kube.recorder import Recorder
from pykubelet.kube.rest import Limits, RestClient

LEASE = ("kube-system", "pykubelet-controllers")
AT_ONCE = 32
"""So many requests keep a server busy; a controller that makes 500 pods at once would open as many connections."""
_ROOT_CA = "root-ca"
# It needs the key of the cluster's authority, which no kubeconfig has.
_KNOWN = tuple(name for name in CONTROLLERS if name != "csrsigning")


def run(settings: ControllersSettings, *, say: Say) -> None:
    """Run controllers until SIGINT or SIGTERM. CannotStart if that is not possible."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        access = access_of(settings.kubeconfig, clock)
        root_ca = _root_ca(access.trust.ca)
        names = _chosen(settings.names, has_root_ca=bool(root_ca))
        limits = Limits(at_once=AT_ONCE)
        # The lease goes by a way of its own: who has much to do must not lose it for that.
        async with RestClient(access, clock=clock, limits=limits) as client, RestClient(access, clock=clock) as aside:

            async def work() -> None:
                async with controllers(client=client, clock=clock, root_ca=root_ca, names=names) as informed:
                    await informed.wait()
                    say("ready controllers")
                    tune_garbage_collection()
                    await stop.wait()

            runners = _elected(work, aside, clock) if settings.leader_elect else {"controllers": work}
            async with running(runners):
                await stop.wait()

    program.run(main)


def _elected(work: Callable[[], Awaitable[None]], client: ControllerClient, clock: Clock) -> dict[str, Runner]:
    """Work while holding the lease. Who loses it is started again, and waits for it like everybody else."""
    recorder = Recorder(sink=client, source=EventSource(component=LEASE[1]), clock=clock)
    identity = identity_of(socket.gethostname(), RandomIds().uid())
    elector = LeaderElector(client=client, recorder=recorder, clock=clock, lease=LEASE, identity=identity)
    return {"events of the election": with_event(recorder.run), "controllers": lambda: elector.run(work)}


def _root_ca(found: Pem | None) -> str:
    """What pods are to trust the API server by, as we do; empty if that is for the machine's authorities to say."""
    try:
        return "" if found is None else pem_text(found).decode()
    except (CredentialError, UnicodeDecodeError) as error:
        raise CannotStart(str(error)) from error


def _chosen(names: tuple[str, ...], *, has_root_ca: bool) -> tuple[str, ...]:
    """The controllers that were asked for; if none were, all there are."""
    if unknown := [name for name in names if name not in _KNOWN]:
        raise CannotStart(f"no controller is called {', '.join(unknown)}; there are {', '.join(_KNOWN)}")
    if _ROOT_CA in names and not has_root_ca:
        raise CannotStart(f"{_ROOT_CA} has nothing to publish: the kubeconfig names no certificate authority")
    return tuple(dict.fromkeys(names)) or tuple(name for name in _KNOWN if has_root_ca or name != _ROOT_CA)
