"""The rows of `top`: units, rounding, order, and nodes without metrics."""

from pykubelet.api.serializer import Document
from pykubelet.cli.actions.top import TopArguments, node_rows, pod_rows


def node(name: str) -> Document:
    status = {"allocatable": {"cpu": "2", "memory": "4Gi"}, "capacity": {"cpu": "4", "memory": "8Gi"}}
    return {"metadata": {"name": name}, "status": status}


def measured(name: str, cpu: str, memory: str) -> Document:
    return {"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": memory}}


def pod(namespace: str, name: str, *containers: tuple[str, str, str]) -> Document:
    rows = [{"name": one, "usage": {"cpu": cpu, "memory": memory}} for one, cpu, memory in containers]
    return {"metadata": {"namespace": namespace, "name": name}, "containers": rows}


def test_nodes_show_their_part_of_what_is_allocatable() -> None:
    """CPU is rounded up to thousandths, memory and percentages down."""
    metrics, nodes = [measured("b", "1999999999n", "1073741825"), measured("a", "1m", "1Gi")], [node(x) for x in "cba"]
    unknown = ("c", *["<unknown>"] * 4)
    assert node_rows(metrics, nodes, TopArguments()) == [
        ("a", "1m", "0%", "1024Mi", "25%"),
        ("b", "2000m", "100%", "1024Mi", "25%"),
        unknown,
    ]
    by_cpu = node_rows(metrics, nodes, TopArguments(sort_by="cpu", show_capacity=True))
    assert by_cpu == [("b", "2000m", "50%", "1024Mi", "12%"), ("a", "1m", "0%", "1024Mi", "12%"), unknown]


def test_pods_show_the_sum_of_their_containers_or_each() -> None:
    metrics = [
        pod("z", "web", ("b", "1500u", "1048575"), ("a", "2m", "3Mi")),
        pod("a", "db", ("c", "1m", "9Mi")),
    ]
    assert pod_rows(metrics, TopArguments()) == [("db", "1m", "9Mi"), ("web", "4m", "3Mi")]
    assert pod_rows(metrics, TopArguments(containers=True, all_namespaces=True)) == [
        ("a", "db", "c", "1m", "9Mi"),
        ("z", "web", "a", "2m", "3Mi"),
        ("z", "web", "b", "2m", "0Mi"),
    ]
    assert [row[0] for row in pod_rows(metrics, TopArguments(sort_by="cpu"))] == ["web", "db"]
