"""The server's own admission plugins, in upstream's order.

What upstream does outside of admission, such as the allocation of cluster IPs, comes last.

Upstream: pkg/kubeapiserver/options/plugins.go
"""

from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import IPv4Network

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.schema import (
    INGRESS_CLASSES,
    IP_ADDRESSES,
    LIMIT_RANGES,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_CIDRS,
    SERVICES,
    STORAGE_CLASSES,
)
from pykubelet.apiserver.admission.certificates import CertificateAdmission
from pykubelet.apiserver.admission.ingress import DefaultIngressClass
from pykubelet.apiserver.admission.interfaces import AdmissionPlugin, ValidatePlugin
from pykubelet.apiserver.admission.limitranger import LimitRanger
from pykubelet.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from pykubelet.apiserver.admission.noderestriction import NodeRestriction, NodeTaint
from pykubelet.apiserver.admission.plugin.policy.param_access import ParamAccess
from pykubelet.apiserver.admission.plugin.policy.params import ParamSource
from pykubelet.apiserver.admission.plugin.policy.validating import ValidatingPolicies
from pykubelet.apiserver.admission.pods import PriorityAndTolerations, RuntimeClassAdmission
from pykubelet.apiserver.admission.podsecurity.admission import PodSecurity
from pykubelet.apiserver.admission.rbac_escalation import RbacEscalation
from pykubelet.apiserver.admission.resourcequota import QuotaAdmission
from pykubelet.apiserver.admission.serviceaccount import ServiceAccountAdmission
from pykubelet.apiserver.admission.services import ServiceAllocation
from pykubelet.apiserver.admission.storage import StorageAdmission
from pykubelet.apiserver.admission.unhandled import UnhandledWarnings
from pykubelet.apiserver.authorization.authorizer import Authorizer
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.apiserver.storage.interfaces import StoreEntry


def admission_plugins(
    store: DurableStore,
    registry: ServedKinds,
    authorizer: Authorizer,
    clock: Clock,
    ids: Ids,
    *,
    with_accounts: bool,
    with_node: bool,
    cluster_ips: IPv4Network,
) -> tuple[AdmissionPlugin, ...]:
    """The plugins that change or reject writes before the kind's own rules run."""
    accounts = ServiceAccountAdmission(store.newest, ids, trusts_mirror_pods=with_node)
    return (
        NamespaceLifecycle(store.newest),
        LimitRanger(_in_namespace(store, LIMIT_RANGES.group_resource)),
        *((accounts,) if with_accounts else ()),
        NodeRestriction(store.newest, authorizer.decide),
        NodeTaint(),
        PriorityAndTolerations(partial(store.entries, PRIORITY_CLASSES.group_resource)),
        StorageAdmission(partial(store.entries, STORAGE_CLASSES.group_resource)),
        RuntimeClassAdmission(store.newest),
        CertificateAdmission(authorizer.decide, clock),
        ParamAccess(ParamSource(registry, store), store.newest, authorizer.decide),
        DefaultIngressClass(partial(store.entries, INGRESS_CLASSES.group_resource)),
        RbacEscalation(authorizer),
        ServiceAllocation(
            partial(store.entries, SERVICES.group_resource),
            cluster_ips=cluster_ips,
            service_cidrs=partial(store.entries, SERVICE_CIDRS.group_resource),
            ip_addresses=partial(store.entries, IP_ADDRESSES.group_resource),
        ),
        *((UnhandledWarnings(),) if with_node else ()),
    )


def validate_plugins(
    store: DurableStore, registry: ServedKinds, authorizer: Authorizer, clock: Clock
) -> tuple[ValidatePlugin, ...]:
    """The plugins that look at what would be stored; the quotas come last."""
    return (
        LimitRanger(_in_namespace(store, LIMIT_RANGES.group_resource)).validate,
        PodSecurity(store.newest, _in_namespace(store, PODS.group_resource)).validate,
        PriorityAndTolerations(partial(store.entries, PRIORITY_CLASSES.group_resource)).validate,
        ValidatingPolicies(store, registry, authorizer.decide),
        QuotaAdmission(store, clock).validate,
    )


def _in_namespace(store: DurableStore, collection: str) -> Callable[[str], Sequence[StoreEntry]]:
    """Returns the entries of a collection in a namespace."""
    return lambda namespace: store.list(collection, namespace).entries
