"""The secrets that registered pods refer to.

Upstream: pkg/kubelet/secret/secret_manager.go.
"""

from pykubelet.agent.refs.cache import CacheOptions, ReferenceCache
from pykubelet.agent.refs.references import secret_names
from pykubelet.agent.refs.store import ObjectSource
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Secret
from pykubelet.api.typed import SECRETS
from pykubelet.kube.reflector import ListerWatcher


class SecretManager(ReferenceCache[Secret]):
    """A `ReferenceCache` of secrets."""

    def __init__(self, *, client: ListerWatcher, clock: Clock, options: CacheOptions | None = None) -> None:
        super().__init__(
            source=ObjectSource(client, SECRETS, clock), names=secret_names, options=options or CacheOptions()
        )
