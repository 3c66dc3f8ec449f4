"""Trainings with roles, with JobSet's real controller and Kueue."""

from __future__ import annotations

import re
from collections.abc import Callable

from support.cluster_tools import DOMAIN, Document, Place, training

Judge = Callable[..., bool]
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET = "training: {backend: jobset}"


def ray(**changes: object) -> Document:
    """Return a training with a head and two workers, which end with the head."""
    worker = {"name": "worker", "nodes": 2, "dependsOn": ["head"], "resources": {"cpu": "2"}}
    return training("ray", roles=[{"name": "head"}, worker], primary=["head"], **changes)


def pods_by_role(place: Place) -> dict[str, list[str]]:
    """Return the names of a namespace's pods by role."""
    found: dict[str, list[str]] = {}
    for pod in place.api.list_objects("Pod", place.namespace):
        found.setdefault(pod["metadata"]["labels"][ROLE], []).append(pod["metadata"]["name"])
    return {role: sorted(names) for role, names in found.items()}


def _log(place: Place, pod: str) -> str:
    return place.gpuctl("logs", "ray", "--pod", pod, "--prefix").out


def test_training_ends_with_its_primary_role(queue_place: Place, writes_nothing: Judge) -> None:
    place = queue_place
    place.platform(JOBSET)
    place.apply(ray(), flags=("--wait", "--timeout", "60"))
    (row,) = place.gpuctl("get", "jobs", "ray", "--jobs", "-o", "json").value["items"]
    assert (row["status"], row["ready"]) == ("Running", "3/3")
    pods = pods_by_role(place)
    assert {role: len(names) for role, names in pods.items()} == {"head": 1, "worker": 2}
    head = place.get("Pod", pods["head"][0])
    addresses = {item["name"]: item.get("value") for item in head["spec"]["containers"][0]["env"]}
    assert addresses["GPUCTL_HEAD_ADDR"] == f"{head['spec']['hostname']}.{head['spec']['subdomain']}"
    workers = [place.get("Pod", name)["spec"] for name in pods["worker"]]
    hosts = sorted(f"{spec['hostname']}.{spec['subdomain']}" for spec in workers)
    assert addresses["GPUCTL_WORKER_HOSTS"] == ",".join(hosts)
    assert writes_nothing(ray())
    described = place.gpuctl("describe", "job", "ray", "-o", "json").value
    assert [(role["name"], role["pods"]) for role in described["roles"]] == [("head", 1), ("worker", 2)]
    for short, name in (("head", pods["head"][0]), ("worker-1", pods["worker"][1])):
        place.until(lambda: _log(place, short) == _log(place, name), f"the log of {name}")  # noqa: B023 - called here
    place.plane.annotate(place.namespace, pods["head"][0], outcome="complete")
    place.gpuctl("wait", "ray", "--for", "done", "--timeout", "60")
    place.until(lambda: "worker" not in pods_by_role(place), "the workers to end")
    (row,) = place.gpuctl("get", "jobs", "ray", "--jobs", "-o", "json").value["items"]
    assert row["status"] == "Succeeded"
    assert writes_nothing(ray())


def test_role_waits_for_the_one_it_depends_on(queue_place: Place) -> None:
    place = queue_place
    place.platform(JOBSET)
    roles = [{"name": "head", "resources": {"cpu": "900"}}, {"name": "worker", "dependsOn": ["head"]}]
    place.apply(training("ray", roles=roles))
    place.until(lambda: pods_by_role(place).keys() == {"head"}, "the head's pod")
    answer = place.gpuctl("why", "ray", "-o", "json").value
    assert (answer["cause"], answer["pod"]) == ("cpu-shortage", pods_by_role(place)["head"][0])


def test_roles_run_and_count_in_their_own_pools(queue_place: Place) -> None:
    place = queue_place
    place.platform(JOBSET)
    pools = {"roles-cpu": {"gpus": 0}, "roles-gpu": {"gpus": 4}}
    for name, room in pools.items():
        place.plane.add_node(f"{name}-0", labels={f"{DOMAIN}/pool": name}, cpu="16", memory="64Gi", **room)
    place.plane.wait_for_nodes()
    limited = {"kind": "pool", "version": "v0.1", "pool": {"name": "roles-gpu"}, "nodes": {"roles-gpu-0": {}}}
    worker = {"name": "worker", "nodes": 2, "resources": {"gpu": 2}}
    roles = [{"name": "head", "resources": {"pool": "roles-cpu", "gpu": 0}}, worker]
    document = training("ray", roles=roles, primary=["head"], resources={"pool": "roles-gpu"})
    try:
        place.apply(limited | {"quota": {"maxGpuPerJob": 3}})
        refused = place.apply(document, code=None)
        assert "asks for 4 GPUs in all; pool roles-gpu allows 3 per job" in refused.err
        nightly = training("nightly", schedule="0 2 29 2 *", resources={"pool": "roles-gpu", "gpu": 4})
        refused = place.apply(nightly, code=None)
        assert "training/nightly: asks for 4 GPUs in all; pool roles-gpu allows 3 per job" in refused.err
        place.apply(limited | {"quota": {"maxJobs": 1}})
        place.apply(document, flags=("--wait", "--timeout", "60"))
        rows = place.gpuctl("get", "jobs", "-o", "json", "--pool", "roles-cpu").value["items"]
        assert [(row["pool"], row["node"], row["gpu"]) for row in rows] == [("roles-cpu", "roles-cpu-0", 0)]
        (row,) = place.gpuctl("get", "jobs", "--jobs", "-o", "json", "--pool", "roles-cpu").value["items"]
        assert (row["pool"], row["gpu"], row["ready"]) == ("roles-gpu,roles-cpu", 4, "3/3")
        described = place.gpuctl("describe", "job", "ray").out
        assert re.search("^ *(Resources:?)? *head: .*, in roles-cpu$", described, re.MULTILINE)
        other = [{**roles[0], "resources": {"pool": "roles-gpu"}}, {"name": "worker"}]
        refused = place.apply(training("second", roles=other, resources={"pool": "roles-cpu"}), code=None)
        assert "pool roles-gpu allows 1 unfinished jobs: there are 1, and 1 would be added" in refused.err
        asked = place.anywhere("delete", "pool", "roles-cpu", code=2)
        assert (
            f"jobs that select it keep running but cannot start again: training/ray in {place.namespace}"
            in asked.out + asked.err
        )
    finally:
        place.gpuctl("delete", "job", "ray", "--yes", code=None)
        place.anywhere("delete", "pool", "roles-gpu", "--yes", code=None)
        for name in pools:
            place.plane.requests.call("DELETE", f"/api/v1/nodes/{name}-0")
