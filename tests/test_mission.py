"""Every part the seeds name exists under its name here, with a docstring that states its contract."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api import pods as api_pods
from pykubelet.api.pods import MirrorUid, PodUid
from pykubelet.controllers.framework import ownership, pod_control
from pykubelet.kubelet.config import apiserver, config, file, http
from pykubelet.kubelet.config.config import NotificationMode
from pykubelet.kubelet.objectcache import secret_and_configmap_manager
from pykubelet.kubelet.objectcache import secret_and_configmap_manager as cache_based_manager
from pykubelet.kubelet.pod import mirror_client, pod_manager
from pykubelet.kubelet.status import cache, status_manager
from pykubelet.kubelet.types import PodOperation

PARTS: dict[Any, str] = {
    mirror_client.MirrorClient: "create_mirror_pod delete_mirror_pod",
    pod_manager.PodManager: (
        "pods pod_by_full_name pod_by_name pod_by_uid pod_by_mirror_pod mirror_pod_by_pod pods_and_mirror_pods "
        "set_pods add_pod update_pod delete_pod orphaned_mirror_pod_names translate_pod_uid uid_translations"
    ),
    pod_manager: "is_mirror_pod_of",
    api_pods: "is_static_pod is_mirror_pod",
    secret_and_configmap_manager.SecretManager: "register_pod unregister_pod get",
    secret_and_configmap_manager.ConfigMapManager: "register_pod unregister_pod get",
    cache_based_manager: "ReferenceCache",
    config.PodConfig: "channel updates merge seen_all_sources",
    file: "FileSource",
    http: "UrlSource",
    apiserver: "ApiServerSource",
    status_manager.StatusManager: (
        "run set_pod_status set_container_readiness set_container_startup terminate_pod remove_orphaned_statuses "
        "pod_status"
    ),
    cache.PodDeletionSafety: "pod_resources_are_reclaimed could_have_running_containers",
    pod_control.PodControl: "create_pods create_pods_on_node create_pods_with_controller_ref delete_pod patch_pod",
    pod_control: "validate_controller_ref pod_from_template pods_prefix",
    ownership.PodControllerRefManager: "claim_pods adopt_pod release_pod",
}
ROWS = [(part, name) for part, names in PARTS.items() for name in names.split()]


@pytest.mark.parametrize(("part", "name"), ROWS, ids=[f"{part.__name__}.{name}" for part, name in ROWS])
def test_part_of_the_seeds_exists_with_its_contract(part: Any, name: str) -> None:
    """Its docstring has at least three words."""
    found = inspect.getattr_static(part, name)
    assert len(inspect.cleandoc(found.__doc__ or "").split()) >= 3


def test_operations_modes_and_ids_of_the_seeds_exist() -> None:
    """There are seven operations, three modes, and two kinds of UID that a type checker distinguishes."""
    assert {op.name for op in PodOperation} == {"SET", "ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE", "RESTORE"}
    assert len(NotificationMode) == 3
    assert PodUid.__name__ != MirrorUid.__name__


def test_path_of_a_pod_leads_to_every_part_and_every_file_it_names_exists() -> None:
    """The tour names each part, and every file that it names exists."""
    root = Path(__file__).parent.parent
    text = (root / "docs/path-of-a-pod.md").read_text()
    assert [name for _, name in ROWS if name not in text] == []
    for name in re.findall(r"`([a-z_/]+\.py)`", text):
        assert (root / name).exists() or list((root / "src/pykubelet").rglob(name)), name
