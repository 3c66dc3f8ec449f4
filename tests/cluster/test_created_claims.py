"""`pvc.create`: the claim is created once, and stays unchanged, also without the jobs that mount it."""

from __future__ import annotations

from typing import Any

from support.cluster_tools import Place, merged, training

CREATE = {"size": "10Gi", "class": "by-hand"}


def document(name: str = "train", **create: Any) -> dict[str, Any]:
    return training(
        job={"name": name},
        storage={"workdirs": [{"path": "/data", "pvc": {"claim": "lab", "create": CREATE | create}}]},
    )


def claim(place: Place) -> dict[str, Any]:
    return place.get("PersistentVolumeClaim", "lab")


def test_claim_is_created_once_and_never_changed(place: Place) -> None:
    assert "create    persistentvolumeclaim/lab" in place.apply(document(), flags=("--dry-run=server",)).out
    assert not place.plan(document()).value["notes"]
    place.apply(document())
    made = claim(place)
    assert made["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
    assert set(place.plan(document()).actions.values()) == {"unchanged"}

    larger = document(size="20Gi", access="ReadWriteMany")
    note = (
        f"persistentvolumeclaim/lab in {place.namespace} has the size 10Gi, not 20Gi and the access ReadWriteOnce, not "
        "ReadWriteMany: gpuctl does not change claims that exist"
    )
    assert place.plan(larger).value["notes"] == [note]
    assert note in place.gpuctl("diff", "-f", place.file(larger), code=1).err
    place.apply(larger, flags=("--yes",))
    assert claim(place)["spec"] == made["spec"]
    assert place.gpuctl("drift", "-f", place.file(larger)).code == 0


def test_claim_of_another_tool_is_used(place: Place) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    place.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "lab"}, "spec": spec})
    other = claim(place)
    place.apply(
        merged(
            document(), {"storage": {"workdirs": [{"path": "/d", "pvc": {"claim": "lab", "create": {"size": "10Gi"}}}]}}
        )
    )
    assert claim(place)["metadata"]["managedFields"] == other["metadata"]["managedFields"]
    assert "the claim stays" not in place.gpuctl("delete", "job", "train", "--yes").err


def test_claim_outlives_its_jobs(place: Place) -> None:
    place.apply(document())
    uid = claim(place)["metadata"]["uid"]
    command = f"`kubectl delete pvc lab -n {place.namespace}` deletes that"
    stays = f"the claim stays with the data: lab in {place.namespace}; {command}"
    assert stays in place.gpuctl("delete", "-f", place.file(document()), "--yes").err
    place.apply(document(), flags=("--set", "team"))
    assert stays in place.gpuctl("delete", "job", "train", "--yes").err
    place.apply(document(), document("other"), flags=("--set", "team"))
    # The other job of the set mounts it still.
    assert stays not in place.apply(document(), flags=("--set", "team", "--prune", "--yes")).err
    plain = training(job={"name": "plain"})
    assert stays in place.apply(plain, flags=("--set", "team", "--prune", "--yes")).err
    assert claim(place)["metadata"]["uid"] == uid


def test_job_waits_for_the_volume(place: Place) -> None:
    place.apply(document())
    place.until(lambda: place.pods("train"), "the pod")
    why = place.gpuctl("why", "train", "-o", "json").value
    assert (why["cause"], why["numbers"]["claim"]) == ("claim-unbound", "lab")
