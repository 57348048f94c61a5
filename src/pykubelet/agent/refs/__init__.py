"""Secrets, config maps and other objects that the pods of this node refer to."""

from pykubelet.agent.refs.cache import CacheOptions, ReferenceCache, Strategy, parse_strategy
from pykubelet.agent.refs.configmap import ConfigMapManager
from pykubelet.agent.refs.pod_references import PodReferences
from pykubelet.agent.refs.references import Reference, Referent, config_map_names, references, secret_names
from pykubelet.agent.refs.runtime_classes import RuntimeClasses
from pykubelet.agent.refs.secret import SecretManager
from pykubelet.agent.refs.services import ServiceList
from pykubelet.agent.refs.store import NotRegistered, NotSynced, ObjectKey
from pykubelet.agent.refs.ttl_store import node_ttl

__all__ = [
    "CacheOptions",
    "ConfigMapManager",
    "NotRegistered",
    "NotSynced",
    "ObjectKey",
    "PodReferences",
    "Reference",
    "ReferenceCache",
    "Referent",
    "RuntimeClasses",
    "SecretManager",
    "ServiceList",
    "Strategy",
    "config_map_names",
    "node_ttl",
    "parse_strategy",
    "references",
    "secret_names",
]
