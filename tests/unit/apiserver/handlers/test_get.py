"""Reading: one object, lists, pages, selectors, resource versions."""

from typing import Any

import pytest

from verb_requests import Asker, config_map, pod

MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/api/v1/configmaps"
NAMES = ("a", "b", "c", "d", "e")


async def fill(asker: Asker) -> None:
    for name in NAMES:
        await asker.ask("POST", MAPS, config_map(name, labels={"odd": str(NAMES.index(name) % 2)}))


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_list_items_have_no_kind_of_their_own(asker: Asker) -> None:
    """This applies to built-in kinds; an object that is read alone has its kind."""
    await asker.ask("POST", MAPS, config_map("a"))
    listed = await asker.ask("GET", MAPS)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert set(listed["items"][0]) == {"metadata", "data"}
    assert (await asker.ask("GET", f"{MAPS}/a"))["kind"] == "ConfigMap"


@pytest.mark.parametrize("path", [MAPS, ALL_MAPS])
async def test_pages_show_one_revision(asker: Asker, path: str) -> None:
    """Objects created or deleted between two pages change nothing; the first page counts the remaining items."""
    await fill(asker)
    first = await asker.ask("GET", f"{path}?limit=2")
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    await asker.ask("DELETE", f"{MAPS}/d")
    await asker.ask("POST", MAPS, config_map("ba"))
    second = await asker.ask("GET", f"{path}?limit=2&continue={first['metadata']['continue']}")
    rest = await asker.ask("GET", f"{path}?limit=2&continue={second['metadata']['continue']}")
    assert names(second) + names(rest) == ["c", "d", "e"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert set(rest["metadata"]) == {"resourceVersion"}


async def test_pages_of_a_selection_have_no_remaining_count(asker: Asker) -> None:
    """Upstream does not count how many of the remaining objects match; the pages together are complete."""
    await fill(asker)
    first = await asker.ask("GET", f"{MAPS}?limit=2&labelSelector=odd%3D0")
    assert names(first) == ["a", "c"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    assert names(await asker.ask("GET", f"{MAPS}?limit=2&labelSelector=odd%3D0&continue={token}")) == ["e"]


async def test_page_that_ends_with_the_last_object_is_the_last_page(asker: Asker) -> None:
    """Nothing follows `e`, so a page that it fills has no token; objects that follow `d` get one, selected or not."""
    await fill(asker)
    whole = await asker.ask("GET", f"{MAPS}?limit=3&labelSelector=odd%3D0")
    assert (names(whole), set(whole["metadata"])) == (["a", "c", "e"], {"resourceVersion"})
    first = await asker.ask("GET", f"{MAPS}?limit=2&labelSelector=odd%3D1")
    assert (names(first), set(first["metadata"])) == (["b", "d"], {"resourceVersion", "continue"})


async def test_expired_page_offers_a_token_for_the_newest_state(asker: Asker) -> None:
    """The Status of the 410 has a token with which the list continues, but no longer at one revision."""
    await fill(asker)
    first = await asker.ask("GET", f"{MAPS}?limit=2")
    await asker.ask("DELETE", f"{MAPS}/d")
    asker.api.store._history.trim(float("inf"))
    with pytest.raises(Exception, match="too old to display a consistent list result") as refused:
        await asker.ask("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
    status = refused.value.to_status()  # type: ignore[attr-defined]
    assert (status["code"], status["reason"]) == (410, "Expired")
    rest = await asker.ask("GET", f"{MAPS}?limit=2&continue={status['metadata']['continue']}")
    assert names(rest) == ["c", "e"]
    old = first["metadata"]["resourceVersion"]
    refusal = await asker.refused("GET", f"{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact")
    assert refusal == (410, "The resourceVersion for the provided list is too old.")


async def test_list_of_an_earlier_revision_shows_what_was(asker: Asker) -> None:
    """A list with Exact or with a limit shows that revision; others may show a newer state."""
    await asker.ask("POST", MAPS, config_map("a"))
    then = (await asker.ask("GET", MAPS))["metadata"]["resourceVersion"]
    await asker.ask("POST", MAPS, config_map("b"))
    assert names(await asker.ask("GET", f"{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")) == ["a"]
    assert names(await asker.ask("GET", f"{MAPS}?resourceVersion={then}&limit=5")) == ["a"]
    for query in (f"resourceVersion={then}", f"resourceVersion={then}&resourceVersionMatch=NotOlderThan", "limit=0"):
        assert names(await asker.ask("GET", f"{MAPS}?{query}")) == ["a", "b"]
    assert names(await asker.ask("GET", f"{MAPS}?resourceVersion=0&limit=1")) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        (
            "resourceVersion=x",
            (400, 'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint'),
        ),
        ("resourceVersion=999", (504, "Timeout: Too large resource version: 999, current: ")),
        ("limit=x", (400, 'strconv.ParseInt: parsing "x": invalid syntax')),
        ("continue=x", (400, "invalid continue token: continue key is not valid: illegal base64 data at input byte 0")),
        (
            "resourceVersionMatch=Nope&resourceVersion=1",
            (422, 'ListOptions.meta.k8s.io "" is invalid: resourceVersionM'),
        ),
        ("sendInitialEvents=true", (422, 'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendI')),
        ("labelSelector=a%3D%3D%3Db", (400, "unable to parse requirement: found '=', expected: identifier")),
        (
            "fieldSelector=data.x%3Dy",
            (400, '"data.x" is not a known field selector: only "metadata.name", "metadata.n'),
        ),
        ("fieldSelector=a", (400, "invalid selector: 'a'; can't understand 'a'")),
    ],
)
async def test_invalid_list_options_are_refused(asker: Asker, query: str, refusal: tuple[int, str]) -> None:
    """The message is upstream's."""
    code, message = await asker.refused("GET", f"{MAPS}?{query}")
    assert (code, message[: len(refusal[1])]) == refusal


async def test_objects_are_selected_by_fields_of_their_kind(asker: Asker) -> None:
    """The old name of a field still works; kubelets list their pods this way."""
    await asker.ask("POST", "/api/v1/namespaces/default/pods", pod("a", nodeName="n"))
    await asker.ask("POST", "/api/v1/namespaces/default/pods", pod("b"))
    for query in ("spec.nodeName%3Dn", "spec.host%3Dn", "metadata.name%3Da", "spec.nodeName%21%3D"):
        assert names(await asker.ask("GET", f"/api/v1/pods?fieldSelector={query}")) == ["a"]
    assert (await asker.refused("GET", "/api/v1/pods?fieldSelector=spec.x%3D1"))[
        1
    ] == "field label not supported: spec.x"


async def test_get_waits_for_no_revision(asker: Asker) -> None:
    """A revision that the server has not reached is refused, any other is accepted."""
    await asker.ask("POST", MAPS, config_map("a"))
    assert await asker.ask("GET", f"{MAPS}/a?resourceVersion=0&unknown=1")
    assert (await asker.refused("GET", f"{MAPS}/a?resourceVersion=999"))[0] == 504
    assert (await asker.refused("GET", f"{MAPS}/a?export=true"))[0] == 400
