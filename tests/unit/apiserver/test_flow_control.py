"""The flow schemas and priority levels of every cluster."""

from pykubelet.apiserver.flowcontrol.ensurer import ensure_flow_control
from verb_requests import MERGE, Asker

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"


async def test_objects_of_every_cluster_are_created_once(asker: Asker) -> None:
    """They have upstream's names and valid specs; what an administrator changed stays."""
    await ensure_flow_control(asker.api.server.handle)
    schemas, levels = f"{GROUP}/flowschemas", f"{GROUP}/prioritylevelconfigurations"
    found = {one["metadata"]["name"]: one for one in (await asker.ask("GET", schemas))["items"]}
    assert sorted(found, key=lambda name: (found[name]["spec"]["matchingPrecedence"], name)) == [
        "exempt",
        "probes",
        "system-leader-election",
        "system-node-high",
        "system-nodes",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-system-service-accounts",
        "service-accounts",
        "global-default",
        "catch-all",
    ]
    known = {one["metadata"]["name"] for one in (await asker.ask("GET", levels))["items"]}
    assert known >= {one["spec"]["priorityLevelConfiguration"]["name"] for one in found.values()}
    assert found["probes"]["metadata"]["annotations"] == {"apf.kubernetes.io/autoupdate-spec": "true"}
    await asker.ask("PATCH", f"{schemas}/probes", {"spec": {"matchingPrecedence": 3}}, MERGE)
    revision = asker.api.store.revision
    await ensure_flow_control(asker.api.server.handle)
    assert asker.api.store.revision == revision
    refusal = await asker.refused("PATCH", f"{schemas}/exempt", {"spec": {"matchingPrecedence": 3}}, MERGE)
    assert refusal[0] == 422
