"""What pods refer to, both kinds at once: registered together, and the secrets that image pulls need.

Upstream: SyncPod in pkg/kubelet/kubelet.go, getPullSecretsForPod in pkg/kubelet/kubelet_pods.go.
"""

from pykubelet.agent.refs.configmap import ConfigMapManager
from pykubelet.agent.refs.secret import SecretManager
from pykubelet.agent.refs.store import NotRegistered, NotSynced
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Pod, Secret
from pykubelet.api.pods import pod_label

log = get_logger(__name__)


class PodReferences:
    """Secrets and config maps of pods; None where there is no API server."""

    def __init__(self, *, secrets: SecretManager | None, config_maps: ConfigMapManager | None) -> None:
        self._secrets = secrets
        self._caches = tuple(cache for cache in (secrets, config_maps) if cache is not None)

    def register_pod(self, pod: Pod) -> None:
        """The pod needs them now."""
        for cache in self._caches:
            cache.register_pod(pod)

    def unregister_pod(self, pod: Pod) -> None:
        """The pod needs them no more."""
        for cache in self._caches:
            cache.unregister_pod(pod)

    async def pull_secrets(self, pod: Pod) -> tuple[list[Secret], list[str]]:
        """The pull secrets a pod names that could be had, and the names of those that could not."""
        found, missing = [], []
        for name in [reference.name for reference in pod.spec.image_pull_secrets if reference.name]:
            secret = await self._secret(pod, name)
            if secret is not None:
                found.append(secret)
            else:
                missing.append(name)
        return found, missing

    async def _secret(self, pod: Pod, name: str) -> Secret | None:
        if self._secrets is None:
            return None
        try:
            return await self._secrets.get(pod.metadata.namespace, name)
        except (ApiError, NotRegistered, NotSynced) as error:
            log.warning("pull secret not read", pod=pod_label(pod), secret=name, cause=str(error))
            return None
