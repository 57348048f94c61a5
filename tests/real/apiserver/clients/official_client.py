"""The official Python client creates, watches, patches, scales and deletes, and prints the outcome."""

import json
import sys
from typing import Any

from kubernetes import client, config, watch

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "tools.official.example.com"},
    "spec": {
        "group": "official.example.com",
        "scope": "Namespaced",
        "names": {"plural": "tools", "singular": "tool", "kind": "Tool"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}


def main(kubeconfig: str) -> dict[str, Any]:
    config.load_kube_config(kubeconfig)
    core, apps, custom = client.CoreV1Api(), client.AppsV1Api(), client.CustomObjectsApi()
    namespace = "official"
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
    container = client.V1Container(name="c", image="nginx")
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="web", labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
    )
    made = core.create_namespaced_pod(namespace, pod)
    events = []
    stream = watch.Watch()
    for event in stream.stream(core.list_namespaced_pod, namespace, timeout_seconds=20):
        events.append(event["type"])
        if events == ["ADDED"]:
            core.patch_namespaced_pod("web", namespace, {"metadata": {"labels": {"tier": "front"}}})
        elif events == ["ADDED", "MODIFIED"]:
            core.delete_namespaced_pod("web", namespace, grace_period_seconds=0)
        elif events[-1] == "DELETED":
            stream.stop()
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "shop"}), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=1, selector=client.V1LabelSelector(match_labels={"app": "shop"}), template=template
    )
    apps.create_namespaced_deployment(
        namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="shop"), spec=spec)
    )
    apps.patch_namespaced_deployment_scale("shop", namespace, {"spec": {"replicas": 4}})
    scaled = apps.read_namespaced_deployment("shop", namespace).spec.replicas
    try:
        core.read_namespaced_pod("web", namespace)
        missing = 200
    except client.ApiException as error:
        missing = error.status
    client.ApiextensionsV1Api().create_custom_resource_definition(CRD)
    tools = ("official.example.com", "v1", namespace, "tools")
    body = {"apiVersion": "official.example.com/v1", "kind": "Tool", "metadata": {"name": "t"}, "spec": {"size": 3}}
    tool = retried(lambda: custom.create_namespaced_custom_object(*tools, body))
    return {
        "phase": made.status.phase,
        "events": events,
        "scaled": scaled,
        "missing": missing,
        "size": tool["spec"]["size"],
        "listed": len(custom.list_namespaced_custom_object(*tools)["items"]),
    }


def retried(ask: Any) -> Any:
    """Repeat a request while it gets 404: a custom kind is served only once its definition is established."""
    for _ in range(100):
        try:
            return ask()
        except client.ApiException as error:
            if error.status != 404:
                raise
    raise SystemExit("the custom kind is not served")


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
