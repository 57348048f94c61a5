"""Adding a kind: its own file and an entry in the registry are all that the API server needs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pykubelet

_SOURCE = Path(pykubelet.__file__).parent

_TOY = '''
"""Toy: a kind that exists in this test only."""

from pykubelet.api.field_errors import not_supported
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import OBJECT_META, Resource
from pykubelet.kinds.columns import column, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings, first_generation, keep_status
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors


def _default(document):
    metadata = normal_form(document["metadata"], OBJECT_META)
    return {**document, "metadata": metadata, "spec": {"color": "red", **document.get("spec", {})}}


def _validate(toy):
    color = toy["spec"]["color"]
    errors = metadata_errors(toy["metadata"])
    return errors if color in ("red", "blue") else [*errors, not_supported("spec.color", color, ("red", "blue"))]


def _validate_update(new, old):
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    return errors + immutable_errors(new["spec"]["color"], old["spec"]["color"], "spec.color")


KIND = Kind(
    resource=Resource("toys.example.com", "v1", "toys", "Toy"),
    structural={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    short_names=("ty",),
    columns=[column("Name", "string", "name", "", 0), column("Color", "string", "", "", 0)],
    cells=lambda toy, age: [name_of(toy), toy["spec"]["color"]],
    strategy=Strategy(
        default=_default,
        prepare_create=first_generation,
        validate_create=_validate,
        prepare_update=keep_status,
        validate_update=_validate_update,
        warnings=Warnings.always(lambda toy: ["toys break"]),
    ),
)
'''

_USE = """
import asyncio, datetime, pathlib, sys

from pykubelet.api.errors import Invalid
from pykubelet.apiserver.discovery import api_resource_list
from pykubelet.apiserver.tables.table import as_table
from pykubelet.kinds import toy
from pykubelet.testing.local_api import local_api

TOYS = toy.KIND.resource


def body(name, **spec):
    return {"apiVersion": "toys.example.com/v1", "kind": "Toy", "metadata": {"name": name}, "spec": spec}


async def main():
    async with local_api(pathlib.Path(sys.argv[1])) as api:
        async def apply(document):
            return await api.client.apply(TOYS, document, namespace="default", field_manager="test")

        async def refused(document):
            try:
                await apply(document)
            except Invalid as error:
                return error.message
            raise AssertionError(document)

        made = await apply(body("car"))
        assert (made["spec"], made["metadata"]["generation"]) == ({"color": "red"}, 1)
        print(await refused(body("bike", color="green")))
        print(await refused(body("car", color="blue")))
        (row,) = as_table(made, toy.KIND, include="None", now=datetime.datetime.now(datetime.UTC))["rows"]
        print(row["cells"])
        (shown,) = api_resource_list(api.registry.all(), "toys.example.com", "v1")["resources"]
        print(shown["name"], shown["singularName"], shown["shortNames"], len(shown["verbs"]))


asyncio.run(main())
"""


def test_a_file_and_a_registry_entry_add_a_kind(tmp_path: Path) -> None:
    """Defaults, validation, immutability, the table and discovery work with no other file changed."""
    package = tmp_path / "pykubelet"
    package.mkdir()
    for path in _SOURCE.iterdir():
        if path.name not in ("kinds", "__pycache__"):
            (package / path.name).symlink_to(path)
    shutil.copytree(_SOURCE / "kinds", package / "kinds", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "kinds/toy.py").write_text(_TOY)
    registry = package / "kinds/registry.py"
    before = registry.read_text()
    after = before.replace("    storage_class,\n", "    storage_class,\n    toy,\n")
    registry.write_text(after.replace("    storage_class.KIND,\n", "    storage_class.KIND,\n    toy.KIND,\n"))

    done = subprocess.run(
        [sys.executable, "-c", _USE, tmp_path],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        'Toy.toys.example.com "bike" is invalid: spec.color: Unsupported value: "green": supported values: "red", "blue"',
        'Toy.toys.example.com "car" is invalid: spec.color: Invalid value: "blue": field is immutable',
        "['car', 'red']",
        "toys toy ['ty'] 8",
    ]
