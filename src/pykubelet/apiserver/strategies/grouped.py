"""The rules of the kinds of the group without a name, of leases, certificates, and all events."""

from pykubelet.apiserver.served import Strategy
from pykubelet.apiserver.strategies.certificate_requests import APPROVAL, CERTIFICATE_REQUESTS
from pykubelet.apiserver.strategies.config import CONFIG_MAPS, SECRETS
from pykubelet.apiserver.strategies.endpoints import ENDPOINTS
from pykubelet.apiserver.strategies.events import EVENTS, NEW_EVENTS
from pykubelet.apiserver.strategies.leases import LEASES
from pykubelet.apiserver.strategies.limit_ranges import LIMIT_RANGES
from pykubelet.apiserver.strategies.namespaces import FINALIZE, NAMESPACES
from pykubelet.apiserver.strategies.nodes import NODES
from pykubelet.apiserver.strategies.pods import EPHEMERAL_CONTAINERS, PODS, RESIZE
from pykubelet.apiserver.strategies.quota import RESOURCE_QUOTAS
from pykubelet.apiserver.strategies.replication_controllers import POD_TEMPLATES, REPLICATION_CONTROLLERS
from pykubelet.apiserver.strategies.service_accounts import SERVICE_ACCOUNTS
from pykubelet.apiserver.strategies.services import SERVICES
from pykubelet.apiserver.strategies.storage import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES

STRATEGIES: dict[str, Strategy] = {
    "certificatesigningrequests.certificates.k8s.io": CERTIFICATE_REQUESTS,
    "configmaps": CONFIG_MAPS,
    "endpoints": ENDPOINTS,
    "events": EVENTS,
    "events.events.k8s.io": NEW_EVENTS,
    "leases.coordination.k8s.io": LEASES,
    "limitranges": LIMIT_RANGES,
    "namespaces": NAMESPACES,
    "nodes": NODES,
    "persistentvolumeclaims": PERSISTENT_VOLUME_CLAIMS,
    "persistentvolumes": PERSISTENT_VOLUMES,
    "pods": PODS,
    "podtemplates": POD_TEMPLATES,
    "replicationcontrollers": REPLICATION_CONTROLLERS,
    "resourcequotas": RESOURCE_QUOTAS,
    "secrets": SECRETS,
    "serviceaccounts": SERVICE_ACCOUNTS,
    "services": SERVICES,
}
"""By group resource, such as `pods` or `leases.coordination.k8s.io`."""

SUBRESOURCES: dict[tuple[str, str], Strategy] = {
    ("certificatesigningrequests.certificates.k8s.io", "approval"): APPROVAL,
    ("namespaces", "finalize"): FINALIZE,
    ("pods", "ephemeralcontainers"): EPHEMERAL_CONTAINERS,
    ("pods", "resize"): RESIZE,
}
"""The rules of subresources through which an object itself is updated; their `update` rules apply."""
