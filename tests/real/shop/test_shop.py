"""An ordinary app on `pykubelet up`, unchanged in each way of running containers: examples/shop.

The tests of one way share the running app, and each leaves it available.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from shop import (
    NEXT_VERSION,
    PATIENCE,
    Shop,
    mounts_below,
    shop_of_ordinary_user,
    shop_on_containerd,
    shop_on_processes,
)

pytestmark = pytest.mark.timeout(180)
_WAYS = {
    "processes as root": shop_on_processes,
    "containerd": shop_on_containerd,
    "processes of an ordinary user": shop_of_ordinary_user,
}
_MOST_BYTES = 130_000_000
# What every client library of Kubernetes does in a pod.
_IN_CLUSTER = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
trusted = ssl.create_default_context(cafile=f"{folder}/ca.crt")
review = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
headers = {"Authorization": "Bearer " + open(f"{folder}/token").read(), "Content-Type": "application/json"}
for server in (os.environ["KUBERNETES_SERVICE_HOST"], "kubernetes.default.svc"):
    url = f"https://{server}:{os.environ['KUBERNETES_SERVICE_PORT']}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = urllib.request.urlopen(urllib.request.Request(url, review, headers), context=trusted, timeout=10)
    print(json.load(answer)["status"]["userInfo"]["username"])
"""


@pytest.fixture(scope="module", params=list(_WAYS))
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    with TemporaryDirectory(prefix="shop-") as folder, _WAYS[request.param](Path(folder)) as made:
        made.until_available()
        yield made


def test_replicas_share_a_port_and_reach_the_database_by_name(shop: Shop) -> None:
    """Settings come from config map and secret. Names and addresses of Services work from the first moment."""
    answers = shop.answers("/", 60)
    pods = shop.kubectl.json("get", "pods", "-l", "app=web")["items"]
    assert {answer["pod"] for answer in answers} == {pod["metadata"]["name"] for pod in pods}
    assert len(pods) == 3
    assert {answer["greeting"] for answer in answers} == {"Welcome to the shop"}
    assert "translate host name" not in shop.kubectl("logs", "-l", "app=web", "-c", "migrate", "--tail=-1")
    assert shop.ask("/orders", "tea")["item"] == "tea"
    assert "tea" in shop.orders()
    shop.kubectl("wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/web", PATIENCE)


def test_ingress_leads_to_every_replica(shop: Shop) -> None:
    address = "jsonpath={.status.loadBalancer.ingress[0].ip}=127.0.0.1"
    shop.kubectl("wait", f"--for={address}", "ingress/web", PATIENCE)
    assert {shop.ask_ingress("/")["pod"] for _ in range(60)} == {
        name for name in shop.container_ids() if name.startswith("web-")
    }


def test_client_in_a_pod_reaches_the_api_with_its_token(shop: Shop) -> None:
    assert shop.execute(_IN_CLUSTER).split() == ["system:serviceaccount:default:default"] * 2


def test_backup_is_in_a_volume_of_its_own(shop: Shop) -> None:
    """The dump has the rows of the database."""
    shop.ask("/orders", "a pot for tea")
    shop.kubectl("create", "job", "--from=cronjob/backup", "now")
    shop.kubectl("wait", "--for=condition=Complete", "job/now", PATIENCE)
    volume = shop.kubectl("get", "pvc", "backups", "-o", "jsonpath={.spec.volumeName}")
    (dump,) = Path(shop.up.data, "volumes", volume).glob("*.sql")
    assert "\ta pot for tea\n" in dump.read_text()
    shop.kubectl("delete", "job", "now", PATIENCE)


def test_release_that_never_listens_replaces_no_pod(shop: Shop) -> None:
    """Its probe fails, the old pods answer all the time, and they are the same when it is undone."""
    before = shop.container_ids()
    with shop.visited() as visits:
        shop.patch_web(command=["/bin/sh", "-c", "trap exit TERM; sleep 1000 & wait"])
        assert "timed out" in shop.kubectl.fails("rollout", "status", "deployment/web", "--timeout=8s")
        (new,) = shop.container_ids().keys() - before.keys()
        reason = f"--field-selector=reason=Unhealthy,involvedObject.name={new}"
        assert "connection refused" in shop.kubectl("get", "events", reason)
        shop.kubectl("rollout", "undo", "deployment/web")
        shop.kubectl("rollout", "status", "deployment/web", PATIENCE)
        assert before.items() <= shop.container_ids().items()
        assert set(visits()) == {"answered"}


def test_usage_is_shown_and_moderate(shop: Shop) -> None:
    """Of pods, and for the autoscaler; the program itself takes no more than it should."""
    figure = "{.status.currentMetrics[0].resource.current.averageUtilization}"
    shop.kubectl("wait", "hpa/web", f"--for=jsonpath={figure}", "--timeout=60s")
    rows = shop.kubectl("top", "pods", "--no-headers").splitlines()
    assert {row.split()[0] for row in rows} >= shop.container_ids().keys()
    assert psutil.Process(shop.up.pid).memory_info().rss < _MOST_BYTES


def test_good_release_replaces_every_pod_without_a_failed_request(shop: Shop) -> None:
    old = [f"pod/{name}" for name in shop.container_ids() if name.startswith("web-")]
    with shop.visited() as visits:
        shop.patch_web(env=[{"name": "GREETING", "value": "Good evening"}])
        shop.kubectl("rollout", "status", "deployment/web", PATIENCE)
        assert shop.ask("/")["greeting"] == "Good evening"
        shop.kubectl("wait", "--for=delete", *old, PATIENCE)
        assert set(visits()) == {"answered"}


def test_data_outlives_pod_and_program(shop: Shop) -> None:
    """A deleted pod, kill -9, and a stop with a start of another version; only the first ends a container."""
    shop.ask("/orders", "a cup")
    orders = shop.orders()
    shop.kubectl("delete", "pod", "database-0", PATIENCE)
    shop.kubectl("wait", "--for=create", "pod/database-0", PATIENCE)
    shop.until_available()
    assert shop.orders() == orders
    containers = shop.container_ids()
    shop.up.kill()
    shop.up.start()
    assert shop.orders() == orders
    assert shop.up.stop() == 0
    shop.up.upgrade()
    shop.up.start()
    version = f"{{.status.nodeInfo.kubeletVersion}}=v1.34.11+pykubelet.{NEXT_VERSION}"
    shop.kubectl("wait", f"--for=jsonpath={version}", "node/node-1", PATIENCE)
    assert shop.orders() == orders
    assert shop.container_ids() == containers


def test_removed_files_take_everything_but_the_data(shop: Shop) -> None:
    """The claim of the StatefulSet stays, as on every cluster; that of a file goes with its volume."""
    data = shop.kubectl("get", "pvc", "data-database-0", "-o", "jsonpath={.spec.volumeName}")
    for file in shop.up.manifests.glob("*.yaml"):
        file.unlink()
    shop.kubectl("wait", "--for=delete", "pods", "--all", PATIENCE)
    shop.kubectl("wait", "--for=delete", "deployment/web", "statefulset/database", "pvc/backups", PATIENCE)
    claims = shop.kubectl.json("get", "pvc")["items"]
    assert [claim["metadata"]["name"] for claim in claims] == ["data-database-0"]
    assert Path(shop.up.data, "volumes", data).is_dir()
    assert mounts_below(shop.up.data) == []
