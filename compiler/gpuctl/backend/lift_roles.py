"""Lifts a JobSet with roles: each replicated Job is read like a training of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpuctl.backend.lift_workload import Data, LiftedWorkload
from gpuctl.backend.lowering_context import Context
from gpuctl.language.names import RENDEZVOUS
from gpuctl.language.role_block import Role
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.queueing import queue_of
from gpuctl.objects.role_jobs import has_role

_OF_CARDS = ("gpu-type", "gpu-profile", "gpu-vendor")
_OF_ROLE = ("gpu", *_OF_CARDS, "cpu", "memory", "shm", "spot", "network")


def has_roles(obj: Object) -> bool:
    """Return True for the JobSet of a training with roles."""
    if obj["kind"] != "JobSet":
        return False
    return has_role(obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"])


def lift_roles(context: Context, obj: Object, ours: Sequence[Object], users_torchrun: Collection[str] = ()) -> Data:
    """Return the document of a JobSet with roles.

    :param users_torchrun: the roles in which the user has set FORCE_TORCHRUN.
    """
    data: Data = {}
    roles: list[Data] = []
    jobs = obj["spec"]["replicatedJobs"]
    variables = [name for job in jobs for name in _variable_names(job)]
    for job in jobs:
        single = {**obj, "spec": {**obj["spec"], "replicatedJobs": [job]}}
        ours_too = job["name"] not in users_torchrun
        workload = LiftedWorkload(context, single, ours, torchrun_is_ours=ours_too, role_variables=variables)
        part = workload.document()
        resources, environment = part["resources"], part["environment"]
        data = data or {**part, "resources": {}}
        pool = labels_of(workload.template).get(context.label("pool"), resources["pool"])
        for field, value in resources.items():
            if field not in (*_OF_ROLE, "nodes"):
                data["resources"].setdefault(field, value)
        _add_images(data, part)
        roles.append(_role(job, environment, resources, workload.container))
        if pool != resources["pool"]:
            roles[-1].setdefault("resources", {})["pool"] = pool
            if context.settings.queue_of(pool) != context.settings.queue_of(resources["pool"]) and queue_of(obj):
                data["resources"]["queue"] = queue_of(obj)
    blocks = [role.get("resources", {}) for role in roles]
    for field in (*_OF_CARDS, "spot"):
        values = [block.get(field) for block in blocks if field == "spot" or "gpu" in block]
        if values and all(value == values[0] for value in values) and values[0] is not None:
            data["resources"][field] = values[0]
            for block in blocks:
                block.pop(field, None)
    image = roles[0].pop("image")
    for role in roles[1:]:
        if role["image"] == image:
            del role["image"]
    own = ("workdir", "envFrom", "imagePullSecret")
    shared = {field: data["environment"][field] for field in own if field in data["environment"]}
    data |= {"environment": {"image": image, **shared}, "roles": roles}
    primary = obj["spec"].get("successPolicy", {}).get("targetReplicatedJobs")
    return {**data, "primary": primary} if primary else data


def _variable_names(job: Object) -> list[str]:
    role = Role.model_construct(name=job["name"], nodes=job["template"]["spec"].get("completions", 1))
    return role.variable_names


def _add_images(data: Data, part: Data) -> None:
    """Add the images of containers beside the program: they may be those of one role, and differ from another's."""
    for field in ("init", "sidecars"):
        for known, helper in zip(data.get(field, []), part.get(field, []), strict=False):
            if "image" in helper:
                known["image"] = helper["image"]


def _role(job: Object, environment: Data, resources: Data, container: Object) -> Data:
    role: Data = {"name": job["name"], "nodes": resources.get("nodes", 1)}
    if job.get("dependsOn"):
        role["dependsOn"] = [item["name"] for item in job["dependsOn"]]
    role |= {field: environment[field] for field in ("image", "command", "args", "env") if field in environment}
    ports = [
        {"name": port["name"], "port": port["containerPort"]}
        for port in container.get("ports", [])
        if port["name"] != RENDEZVOUS or role["nodes"] == 1
    ]
    if ports:
        role["ports"] = ports
    amounts = {field: resources[field] for field in _OF_ROLE if resources.get(field)}
    return {**role, "resources": amounts} if amounts else role
