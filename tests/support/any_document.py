"""A Hypothesis strategy for documents of any kind that strict decoding accepts."""

from typing import Any

from pykubelet.api.schema import Field, definitions

_TEXTS = (
    *(
        "",
        "a",
        "web",
        "Bad_Name",
        "x/y",
        "a.b/c",
        "..",
        "../x",
        "/abs",
        "A=b",
        "é\n",
        "x" * 300,
        "1",
        "latest",
        "a:b",
        ":80",
    ),
    *(
        "Always",
        "Never",
        "OnFailure",
        "Exists",
        "In",
        "Gt",
        "windows",
        "linux",
        "Localhost",
        "TCP",
        "Managed",
        "None",
        "v1",
    ),
    *(
        "metadata.name",
        "metadata.labels['a']",
        "spec.host",
        "limits.cpu",
        "limits.hugepages-2Mi",
        "SIGTERM",
        "::1",
        "iqn.x",
    ),
    *(
        "net.core.x",
        "CAP_SYS_ADMIN",
        "Unmasked",
        "Bidirectional",
        "DoNotSchedule",
        "NoExecute",
        "Merge",
        "domain\\user",
    ),
)
_KEYS = (
    "a",
    "cpu",
    "memory",
    "hugepages-2Mi",
    "example.com/gpu",
    "storage",
    "kubernetes.io/config.mirror",
    "pods",
    "x y",
)
_SCALARS: dict[str, tuple[Any, ...]] = {
    "string": _TEXTS,
    "integer": (-1, 0, 1, 80, 255, 600, 70000, 2**31 - 1),
    "number": (0, 1.5),
    "boolean": (True, False),
    "bytes": ("", "YQ=="),
    # Valid for both kinds of time: MicroTime must have six fractional digits, Time may.
    "time": ("2024-01-01T00:00:00.000000Z",),
    "quantity": ("1", "0.5", "1Gi", "-1", "1.00001", 2, 0.25, "0"),
    "int-or-string": (0, 80, "http", "", "--"),
    "any": ({}, "x", None),
}


def _value(random: Any, field: Field, depth: int) -> Any:
    if field.type in _SCALARS:
        return random.choice(_SCALARS[field.type])
    if field.type == "ref":
        return any_document(random, field.ref, depth + 1)
    items = field.items
    assert items is not None
    count = random.choice((0, 1, 1, 2))
    if field.type == "array":
        return [_value(random, items, depth) for _ in range(count)]
    return {random.choice(_KEYS): _value(random, items, depth) for _ in range(count)}


def any_document(random: Any, definition: str, depth: int = 0) -> dict[str, Any]:
    """A document with a random choice of its fields and random values of the right types."""
    chance = 1.0 if depth == 0 else 0.45 if depth < 3 else 0.6
    fields = definitions()[definition].fields
    chosen = {name: field for name, field in fields.items() if depth < 9 and random.random() < chance}
    return {name: _value(random, field, depth) for name, field in chosen.items() if random.random() < 0.97 or depth}
