"""ResourceQuota admission: what is rejected, and what a write charges to the quotas of its namespace."""

import asyncio
from typing import Any

import pytest

from pykubelet.api.errors import ApiError
from verb_requests import MERGE, Asker, config_map, pod

QUOTAS, MAPS, PODS = (f"/api/v1/namespaces/default/{plural}" for plural in ("resourcequotas", "configmaps", "pods"))
Body = dict[str, Any]


async def limit(asker: Asker, hard: Body, used: Body | None = None, name: str = "q", **spec: Any) -> None:
    """Makes a quota in the state in which the controller leaves it; by default nothing is used."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    await asker.ask("POST", QUOTAS, quota)
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    await asker.ask("PATCH", f"{QUOTAS}/{name}/status", {"status": status}, MERGE)


async def used(asker: Asker, name: str = "q") -> Body:
    found: Body = (await asker.ask("GET", f"{QUOTAS}/{name}"))["status"]["used"]
    return found


async def test_concurrent_creations_never_exceed_a_quota(asker: Asker) -> None:
    """Exactly as many succeed as the quota allows; the others get Forbidden with the amounts."""
    await limit(asker, {"configmaps": "3"})

    async def create(number: int) -> str:
        try:
            await asker.ask("POST", MAPS, config_map(f"m{number}"))
        except ApiError as error:
            return error.message
        return ""

    messages = await asyncio.gather(*map(create, range(20)))
    assert messages.count("") == 3
    why = 'configmaps "m3" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=3, limited: configmaps=3'
    assert messages[3] == why
    assert await used(asker) == {"configmaps": "3"}


async def test_charge_is_seen_with_its_object(asker: Asker) -> None:
    """A reader that sees the object sees the charge, and the other way round: they are stored together."""
    await limit(asker, {"configmaps": "9"})
    writing = asyncio.ensure_future(asker.ask("POST", MAPS, config_map("m")))
    while not writing.done():
        await asyncio.sleep(0)
        count = len((await asker.ask("GET", MAPS))["items"])
        assert await used(asker) == {"configmaps": str(count)}
    assert await used(asker) == {"configmaps": "1"}


async def test_rejected_writes_and_dry_runs_charge_nothing(asker: Asker) -> None:
    """A name that is taken, an invalid object, another quota, and a dry run that would succeed or fail."""
    await limit(asker, {"configmaps": "2"})
    await asker.ask("POST", MAPS, config_map("m"))
    assert (await asker.refused("POST", MAPS, config_map("m")))[0] == 409
    assert (await asker.refused("POST", MAPS, config_map("No Name")))[0] == 422
    await asker.ask("POST", f"{MAPS}?dryRun=All", config_map("n"))
    await limit(asker, {"count/configmaps": "0"}, name="z")
    assert (await asker.refused("POST", MAPS, config_map("n")))[0] == 403
    assert (await asker.refused("POST", f"{MAPS}?dryRun=All", config_map("n")))[0] == 403
    assert await used(asker) == {"configmaps": "1"}


async def test_object_under_a_generated_name_is_named_in_the_error(asker: Asker) -> None:
    await limit(asker, {"configmaps": "0"})
    _, message = await asker.refused("POST", MAPS, {**config_map(""), "metadata": {"generateName": "m-"}})
    assert message.startswith('configmaps "m-')
    assert not message.startswith('configmaps "m-"')


async def test_update_is_charged_for_what_it_adds(asker: Asker) -> None:
    """An increase of node ports counts; a decrease is left to the controller, and other changes cost nothing."""
    services = "/api/v1/namespaces/default/services"
    await limit(asker, {"services.nodeports": "2"})
    ports = [{"name": name, "port": number} for number, name in enumerate("abc", 1)]
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports[:1]}}
    await asker.ask("POST", services, body)
    assert await used(asker) == {"services.nodeports": "0"}
    for spec, expected in (({"type": "NodePort"}, "1"), ({"ports": ports[:2]}, "2"), ({"type": "ClusterIP"}, "2")):
        await asker.ask("PATCH", f"{services}/s", {"spec": spec}, MERGE)
        assert await used(asker) == {"services.nodeports": expected}
    _, message = await asker.refused("PATCH", f"{services}/s", {"spec": {"type": "NodePort"}}, MERGE)
    assert message == (
        'services "s" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, '
        "limited: services.nodeports=2"
    )


async def test_write_that_adds_nothing_passes_an_exceeded_quota(asker: Asker) -> None:
    """A limit may be lower than what is used already."""
    services = "/api/v1/namespaces/default/services"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}
    await asker.ask("POST", services, body)
    await limit(asker, {"services": "1", "services.nodeports": "0"}, {"services": "3", "services.nodeports": "2"})
    await asker.ask("PATCH", f"{services}/s", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert await used(asker) == {"services": "3", "services.nodeports": "2"}


async def test_pod_that_enters_a_scope_is_charged_in_full(asker: Asker) -> None:
    """A deadline set by an update moves the pod into the scope Terminating; the other quota keeps its charge."""
    await limit(asker, {"pods": "1"}, name="ending", scopes=["Terminating"])
    await limit(
        asker,
        {"pods": "5"},
        name="lasting",
        scopeSelector={"matchExpressions": [{"scopeName": "NotTerminating", "operator": "Exists"}]},
    )
    await asker.ask("POST", PODS, pod("a"))
    assert (await used(asker, "ending"), await used(asker, "lasting")) == ({"pods": "0"}, {"pods": "1"})
    await asker.ask("PATCH", f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 60}}, MERGE)
    assert (await used(asker, "ending"), await used(asker, "lasting")) == ({"pods": "1"}, {"pods": "1"})
    assert (await asker.refused("POST", PODS, pod("b", activeDeadlineSeconds=9)))[0] == 403


async def test_status_of_a_claim_is_charged_beyond_the_quota(asker: Asker) -> None:
    """It reports what was allocated, which cannot be refused any more."""
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    await limit(asker, {"requests.storage": "2Gi"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    await asker.ask("POST", claims, body)
    await asker.ask("PATCH", f"{claims}/c/status", {"status": {"allocatedResources": {"storage": "3Gi"}}}, MERGE)
    assert await used(asker) == {"requests.storage": "3Gi"}


@pytest.mark.parametrize(
    ("hard", "counted", "why"),
    [
        ({"limits.cpu": "1"}, {"limits.cpu": "0"}, "failed quota: q: must specify limits.cpu for: c"),
        ({"pods": "1"}, {}, "status unknown for quota: q, resources: pods"),
        (
            {"count/pods": "0", "pods": "1"},
            {"count/pods": "0", "pods": "1"},
            "exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=0,pods=1, limited: count/pods=0,pods=1",
        ),
    ],
    ids=["missing limit", "not counted yet", "several resources"],
)
async def test_pod_is_rejected_with_the_reason(asker: Asker, hard: Body, counted: Body, why: str) -> None:
    await limit(asker, hard, counted)
    assert await asker.refused("POST", PODS, pod("a")) == (403, f'pods "a" is forbidden: {why}')


async def test_quota_limits_nothing_before_its_status_says_so(asker: Asker) -> None:
    """Without a controller, a quota has no effect; in other namespaces neither."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"configmaps": "0"}},
    }
    await asker.ask("POST", QUOTAS, quota)
    await asker.ask("POST", MAPS, config_map("m"))
    await limit(asker, {"configmaps": "0"}, name="r")
    await asker.ask("POST", MAPS.replace("default", "kube-system"), config_map("m"))
    assert (await asker.refused("POST", MAPS, config_map("n")))[0] == 403
