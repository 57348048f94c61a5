"""A kopf operator that keeps a config map for each Tool and writes the size into the Tool's status."""

from typing import Any

import kopf
from kubernetes import client, config

config.load_kube_config()


@kopf.on.startup()
def quiet(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True


@kopf.on.create("official.example.com", "v1", "tools")
@kopf.on.update("official.example.com", "v1", "tools", field="spec.size")
def made(spec: kopf.Spec, name: str, namespace: str, **_: Any) -> dict[str, Any]:
    body = {"metadata": {"name": f"tool-{name}"}, "data": {"size": str(spec["size"])}}
    kopf.adopt(body)
    api = client.CoreV1Api()
    try:
        api.create_namespaced_config_map(namespace, body)
    except client.ApiException as error:
        if error.status != 409:
            raise
        api.patch_namespaced_config_map(body["metadata"]["name"], namespace, {"data": body["data"]})
    return {"size": spec["size"]}


@kopf.on.delete("official.example.com", "v1", "tools")
def gone(name: str, namespace: str, **_: Any) -> None:
    client.CoreV1Api().delete_namespaced_config_map(f"tool-{name}", namespace)
