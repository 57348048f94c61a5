"""The page of a real `pykubelet up` in a real browser: live pods, one pod, manifest errors, keyboard, and dark mode."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from page_lab import UpLab, page_of_up

pytestmark = pytest.mark.timeout(240)
PATIENCE = "--timeout=30s"
WRITER = """
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: example/image:1
    command: [/bin/sh, -c, 'echo "$GREETING"; i=0; while true; do i=$((i+1)); echo "line $i"; sleep 0.2; done']
    env: [{name: GREETING, valueFrom: {configMapKeyRef: {name: words, key: greeting}}}]
    readinessProbe: {exec: {command: ['true']}, periodSeconds: 1}
"""
BROKEN = """apiVersion: v1
kind: Pod
metadata: {name: shop}
spec:
  containers:
  - name: main
    imag: example/image:1
"""
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: hunter2-hunter2}
"""


def row(name: str) -> str:
    """A script that returns the text in the row of a pod."""
    return f"document.getElementById('row-' + encodeURIComponent('default/{name}'))?.innerText"


def station(name: str) -> str:
    """A script that returns the number at a station of the path."""
    return f"document.querySelector('.s-{name} .number')?.textContent"


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[UpLab]:
    async with page_of_up(tmp_path) as made:
        yield made


async def test_pods_table_updates_live(lab: UpLab) -> None:
    """Rows and the counts on the path follow without a reload."""
    await lab.sign_in()
    await lab.tab.until_text("No pods yet")
    await lab.tab.run("window.isSame = true")
    await lab.kubectl("create", "deployment", "two", "--image=example/image:1", "--replicas=2")
    await lab.tab.until("document.querySelectorAll('.body .cell[data-tone=good]').length === 2")
    await lab.tab.until(f"{station('runtime')} === '2' && {station('sources')} === '2' && {station('status')} === '2'")
    await lab.kubectl("create", "-f", "-", text=WRITER)
    await lab.tab.until(f"({row('writer')} ?? '').includes('CreateContainerConfigError')")
    await lab.tab.until(f"{station('pods')} === '3' && document.title.startsWith('(1)')")
    await lab.kubectl("delete", "deployment", "two")
    await lab.kubectl("delete", "pod", "writer", "--now")
    await lab.tab.until("document.querySelectorAll('.body .row').length === 0")
    await lab.tab.until(f"{station('runtime')} === '0'")
    assert await lab.tab.run("window.isSame") is True


async def test_pod_that_no_node_takes_is_explained_from_the_api(lab: UpLab) -> None:
    """It counts at no station of the path."""
    lonely = WRITER.replace("spec:", "spec:\n  nodeSelector: {disk: ssd}", 1)
    await lab.kubectl("create", "-f", "-", text=lonely)
    await lab.sign_in("#/pod/default/writer")
    await lab.tab.until_text("Waits for: scheduling")
    await lab.tab.until_text("the pod is not on this node")
    assert await lab.tab.run(station("pods")) == "0"


async def test_pod_view_shows_the_reason_for_waiting_and_a_live_log(tmp_path: Path) -> None:
    """Once fixed, it shows log, probes, usage and timeline."""
    async with page_of_up(tmp_path, runtime="process", writer=WRITER) as lab:
        await lab.sign_in("#/pod/default/writer-node-1")
        await lab.tab.until_text("Waits for: configuration")
        await lab.tab.until_text("create the configmap words")
        await lab.kubectl("create", "configmap", "words", "--from-literal=greeting=good morning")
        await lab.tab.until_text("Nothing blocks this pod")
        await lab.tab.until("document.querySelector('.log').textContent.includes('good morning')")
        await lab.tab.until("document.querySelector('.log').textContent.includes('line 5')")
        seen = await lab.tab.run("document.querySelectorAll('.log span').length")
        await lab.tab.until(f"document.querySelectorAll('.log span').length > {seen}")
        await lab.tab.until("document.querySelectorAll('.found.s').length > 1")
        await lab.tab.until("document.querySelectorAll('.spark .line').length === 2")
        await lab.tab.until("document.querySelectorAll('.timeline .band').length >= 2")
        assert await lab.tab.run("document.querySelectorAll('.timeline circle').length") > 5
        await lab.tab.run("document.querySelector('summary').click()")
        await lab.tab.until_text(str(lab.manifests / "writer.yaml"))
        (lab.manifests / "writer.yaml").unlink()
        await lab.tab.until("document.querySelector('.badge').innerText === 'gone'")


async def test_broken_manifest_is_shown_with_its_line(tmp_path: Path) -> None:
    """It shows file, line, field and reason; lines of a file with a Secret are hidden."""
    async with page_of_up(tmp_path, shop=BROKEN) as lab:
        await lab.sign_in("#/problems")
        await lab.tab.until_text(str(lab.manifests / "shop.yaml"))
        assert await lab.tab.run("document.querySelector('.meant').innerText") == "7\n    imag: example/image:1"
        words = await lab.tab.run("document.querySelector('.mistake p').innerText")
        assert "line 7, column 5" in words
        assert "spec.containers[0].imag" in words
        assert 'unknown field (did you mean "image"?)' in words
        (lab.manifests / "shop.yaml").write_text(f"{BROKEN}---{SECRET}")
        await lab.tab.until_text("it contains a Secret")
        assert "hunter2" not in await lab.tab.run("document.documentElement.innerHTML")
        (lab.manifests / "shop.yaml").write_text(BROKEN.replace("imag:", "image:"))
        await lab.tab.until_text("All manifests are valid.")


async def test_objects_of_any_kind_are_shown_as_yaml_without_secrets(lab: UpLab) -> None:
    """Values of secrets are hidden."""
    await lab.kubectl("create", "-f", "-", text=SECRET)
    await lab.sign_in("#/objects//v1/secrets")
    await lab.tab.until(f"({row('login')} ?? '').includes('login')")
    await lab.tab.run("document.querySelector('.c-name a').click()")
    await lab.tab.until_text("password: (hidden, 20 characters)")
    assert "kind: Secret" in await lab.tab.run("document.querySelector('.yamltext').innerText")
    await lab.tab.run("location.hash = '#/objects/apps/v1/deployments'")
    await lab.tab.until_text("No objects.")
    for view in ("nodes", "events"):
        await lab.tab.run(f"location.hash = '#/{view}'")
        await lab.tab.until(f"document.querySelectorAll('.of-{view} .body .row').length > 0")


async def test_keyboard_is_enough(lab: UpLab) -> None:
    """`/` filters, arrows and Enter work in the table, Escape goes back, and the focus is visible."""
    await lab.kubectl("create", "deployment", "two", "--image=example/image:1", "--replicas=2")
    await lab.kubectl("create", "deployment", "other", "--image=example/image:1")
    await lab.sign_in()
    await lab.tab.until("document.querySelectorAll('.body .row').length === 3")
    await lab.tab.press("/")
    await lab.tab.until("document.activeElement.className === 'filter'")
    for key in "two":
        await lab.tab.press(key)
    await lab.tab.until("document.querySelectorAll('.body .row').length === 2")
    await lab.tab.press("Enter")
    await lab.tab.until("document.activeElement.getAttribute('role') === 'grid'")
    first = await lab.tab.until("document.querySelector('.row.active .c-name').innerText")
    await lab.tab.press("ArrowDown")
    second = await lab.tab.until("document.querySelector('.row.active .c-name').innerText")
    assert first < second
    await lab.tab.press("Enter")
    await lab.tab.until(f"location.hash === '#/pod/default/{second}'")
    await lab.tab.until_text("Nothing blocks this pod")
    await lab.tab.press("Escape")
    await lab.tab.until("location.hash === '#/pods'")
    await lab.tab.until(f"document.querySelector('.row.active .c-name').innerText === '{second}'")
    assert await lab.tab.run("document.querySelector('.filter').value") == "two"
    await lab.tab.press("Tab")
    await lab.tab.until("document.activeElement.matches(':focus-visible')")
    assert await lab.tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


async def test_page_is_readable_in_the_dark_and_on_a_narrow_screen(tmp_path: Path) -> None:
    """Dark mode has light text on a dark background; a narrow screen needs no horizontal scrolling."""
    async with page_of_up(tmp_path, shop=BROKEN) as lab:
        await lab.sign_in()
        grounds = {}
        for dark in (False, True):
            await lab.tab.look(dark=dark)
            ground = await lab.tab.run("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
            ink = await lab.tab.run("getComputedStyle(document.body).color.match(/[0-9]+/g).map(Number)")
            assert abs(sum(ground) - sum(ink)) > 400
            grounds[dark] = sum(ground)
        assert grounds[True] < 150
        assert grounds[False] > 600
        await lab.kubectl("create", "deployment", "one", "--image=example/image:1")
        await lab.kubectl("wait", "--for=condition=Available", PATIENCE, "deployment/one")
        name = (await lab.kubectl("get", "pods", "-o", "name")).strip().removeprefix("pod/")
        for view in ("pods", "nodes", "events", "objects", "problems", f"pod/default/{name}"):
            await lab.tab.look(width=390, height=800)
            await lab.tab.run(f"location.hash = '#/{view}'")
            await lab.tab.until("document.querySelector('#view').childElementCount > 0")
            assert await lab.tab.run("document.documentElement.scrollWidth <= innerWidth"), view
