"""A lightkube client that creates, reads, applies, watches and deletes, and prints the outcome."""

import json
import sys
from typing import Any

from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod


def main(kubeconfig: str) -> dict[str, Any]:
    client = Client(config=KubeConfig.from_file(kubeconfig), namespace="light", field_manager="light")
    client.create(Namespace(metadata=ObjectMeta(name="light")))
    client.create(Pod(metadata=ObjectMeta(name="web"), spec=PodSpec(containers=[Container(name="c", image="nginx")])))
    client.apply(ConfigMap(metadata=ObjectMeta(name="settings"), data={"a": "1"}))
    client.patch(ConfigMap, "settings", {"data": {"b": "2"}})
    events = []
    for kind, pod in client.watch(Pod, namespace="light", server_timeout=20):
        events.append(kind)
        if kind == "ADDED":
            assert pod.metadata is not None
            client.patch(Pod, "web", {"metadata": {"labels": {"seen": "yes"}}})
        elif events == ["ADDED", "MODIFIED"]:
            client.delete(Pod, "web", grace_period=0)
        elif kind == "DELETED":
            break
    try:
        client.get(Pod, "web")
        missing = 200
    except ApiError as error:
        missing = error.status.code or 0
    tool = create_namespaced_resource("official.example.com", "v1", "Tool", "tools")
    client.create(tool(metadata=ObjectMeta(name="light"), spec={"size": 9}))
    return {
        "events": events,
        "data": client.get(ConfigMap, "settings").data,
        "missing": missing,
        "size": client.get(tool, "light").spec["size"],
        "listed": len(list(client.list(tool))),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
