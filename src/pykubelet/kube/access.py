"""How to reach one API server: where it is, whom to trust, who we are."""

from dataclasses import dataclass, field

from pykubelet.kube.credentials import Credentials
from pykubelet.kube.tls import Trust


@dataclass(frozen=True, slots=True)
class Access:
    """What a client needs to know of a cluster. `server` is an http or https URL, perhaps with a path."""

    server: str
    credentials: Credentials
    trust: Trust = field(default_factory=Trust)
    namespace: str = "default"
