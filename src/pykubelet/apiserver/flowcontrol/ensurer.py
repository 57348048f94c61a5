"""Creates the flow schemas and priority levels that every cluster has.

Upstream: pkg/registry/flowcontrol/rest/storage_flowcontrol.go, pkg/registry/flowcontrol/ensurer/strategy.go
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pykubelet.api.errors import AlreadyExists
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver.namespaces import APISERVER
from pykubelet.apiserver.request import ApiRequest, ApiResponse, WatchStream
from pykubelet.kinds import flow_schema, priority_level_configuration
from pykubelet.kinds.flow_schema import MANDATORY_FLOW_SCHEMAS, SUGGESTED_FLOW_SCHEMAS
from pykubelet.kinds.kind import Kind
from pykubelet.kinds.priority_level_configuration import MANDATORY_PRIORITY_LEVELS, SUGGESTED_PRIORITY_LEVELS

Handle = Callable[[ApiRequest], Awaitable[ApiResponse | WatchStream]]
_AUTO_UPDATE = {"apf.kubernetes.io/autoupdate-spec": "true"}


async def ensure_flow_control(handle: Handle) -> None:
    """Creates those that do not exist, all at once, so that they share the disk's writes."""
    wanted = [
        (priority_level_configuration.KIND, {**MANDATORY_PRIORITY_LEVELS, **SUGGESTED_PRIORITY_LEVELS}),
        (flow_schema.KIND, {**MANDATORY_FLOW_SCHEMAS, **SUGGESTED_FLOW_SCHEMAS}),
    ]
    await asyncio.gather(
        *(_ensure(handle, served, name, spec) for served, specs in wanted for name, spec in specs.items())
    )


async def _ensure(handle: Handle, served: Kind, name: str, spec: Document) -> None:
    resource, metadata = served.resource, {"name": name, "annotations": _AUTO_UPDATE}
    body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata, "spec": spec}
    request = ApiRequest(user=APISERVER, verb="create", served=served, body=encode(body), user_agent="kube-apiserver")
    with suppress(AlreadyExists):
        await handle(request)
