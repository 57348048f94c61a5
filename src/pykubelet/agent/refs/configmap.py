"""The config maps that registered pods refer to.

Upstream: pkg/kubelet/configmap/configmap_manager.go.
"""

from pykubelet.agent.refs.cache import CacheOptions, ReferenceCache
from pykubelet.agent.refs.references import config_map_names
from pykubelet.agent.refs.store import ObjectSource
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import ConfigMap
from pykubelet.api.typed import CONFIG_MAPS
from pykubelet.kube.reflector import ListerWatcher


class ConfigMapManager(ReferenceCache[ConfigMap]):
    """A `ReferenceCache` of config maps."""

    def __init__(self, *, client: ListerWatcher, clock: Clock, options: CacheOptions | None = None) -> None:
        super().__init__(
            source=ObjectSource(client, CONFIG_MAPS, clock), names=config_map_names, options=options or CacheOptions()
        )
