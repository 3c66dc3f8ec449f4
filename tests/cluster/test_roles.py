"""The roles in deploy/rbac: the commands of each role work, and commands beyond it are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.world import Api
from support.cluster_tools import Place, image, inference, training

ROLES = Path(__file__).resolve().parents[2] / "deploy" / "rbac"
JOBS = (training("a"), inference("b", autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 2}))
CHANGED = (training("a", environment=image("v2")), JOBS[1])
Become = Callable[[str], None]


@pytest.fixture(scope="module")
def roles(plane: ControlPlane, drill_nodes: None) -> Iterator[None]:
    """Apply the shipped roles and example bindings."""
    bindings = ROLES / "bindings.yaml"
    plane.kubectl("apply", "-k", str(ROLES))
    plane.kubectl("apply", "-f", str(bindings))
    plane.grant("onlooker", "team-a", "gpuctl-viewer")
    plane.grant("onlooker", None, "gpuctl-cluster-reader")
    plane.wait_for(lambda: plane.may("onlooker", "list", "jobs.batch", "team-a"), "the rights")
    yield
    plane.kubectl("delete", "-f", str(bindings))


@pytest.fixture
def become(place: Place, roles: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Become]:
    """Return a function that switches all further commands to a user, in team-a."""
    own, place.namespace = place.namespace, "team-a"

    def switch(user: str) -> None:
        monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig(user)))

    yield switch
    switch("admin")
    for document in JOBS:
        place.gpuctl("delete", "job", document["job"]["name"], code=None)
    place.namespace = own


def test_user_role_runs_jobs(place: Place, become: Become) -> None:
    """Every command that changes or reads jobs works, without a note about missing rights."""
    become("admin")
    place.apply(*JOBS)  # only an administrator may create priority classes
    for name in ("a", "b"):
        place.gpuctl("delete", "job", name)
    become("member")
    assert place.apply(*JOBS).err == ""
    place.running("a", "b")
    created = place.apply(*JOBS, flags=("--set", "mine")).err
    assert created.startswith(
        f"note: the set mine is new: it is kept in the Secret mine of namespace {place.namespace};"
    )
    assert place.apply(*CHANGED, flags=("--yes", "--set", "mine")).err == ""
    place.running("a")
    assert "may not" not in place.apply(*JOBS, flags=("--yes", "--force")).err
    place.running("a")
    place.gpuctl("apply", "-f", place.file(JOBS[0]), "--set", "mine", "--prune", "--yes")
    place.gpuctl("pause", "a")
    place.gpuctl("resume", "a")
    place.running("a")
    place.gpuctl("get", "jobs")
    place.gpuctl("describe", "job", "a")
    place.gpuctl("why", "a")
    place.gpuctl("logs", "a")
    place.gpuctl("wait", "a", "--for", "running", "--timeout=120s")
    place.gpuctl("diff", "-f", place.file(*CHANGED), code=1)
    place.gpuctl("fit", "-f", place.file(JOBS[0]))
    for what in ("pools", "nodes"):
        assert "may not" not in place.anywhere("get", what).err
    assert "may not" not in place.gpuctl("get", "quotas").err
    assert place.gpuctl("recover").err == "Nothing to recover.\n"
    refused = place.anywhere("apply", "-f", place.file(JOBS[0]), "-n", "team-b", code=3)
    assert refused.err == "error: you may not create jobs.batch in namespace team-b\n  = nothing was changed\n"
    assert "may not" in place.anywhere("label", "node", "drill-0", "x=y", code=3).err
    place.gpuctl("delete", "job", "a")
    assert "Job/a" not in place.names()


def test_viewer_role_only_reads(place: Place, become: Become) -> None:
    become("admin")
    place.apply(*JOBS)
    place.running("a", "b")
    before = place.records()
    become("onlooker")
    place.gpuctl("get", "jobs")
    place.gpuctl("get", "jobs", "-o", "wide")
    place.gpuctl("get", "quotas")
    for command in (("describe", "job"), ("why",), ("logs",)):
        for name in ("a", "b"):
            assert "may not" not in place.gpuctl(*command, name).err
    place.gpuctl("wait", "b", "--for", "ready", "--timeout=120s")
    difference = place.gpuctl("diff", "-f", place.file(*CHANGED), code=1)
    assert "+        image: registry.example.com/app:v2" in difference.out
    for command in (
        ("apply", "-f", place.file(*CHANGED), "--yes"),
        ("delete", "job", "a"),
        ("pause", "a"),
        ("exec", "a", "--", "true"),
    ):
        assert "may not" in place.gpuctl(*command, code=3).err
    assert place.records() == before
    assert not place.plane.may("onlooker", "get", "secrets", "team-a")


def test_pool_admin_role_changes_pools_and_quotas(place: Place, become: Become, api: Api) -> None:
    """The role covers pools, quotas and node labels of the whole cluster, but no jobs and no Secrets."""
    become("keeper")
    # Objects of a failed first attempt may still be terminating.
    own = uuid4().hex[:6]
    node, team = f"roles-node-{own}", f"roles-team-{own}"
    place.plane.add_node(node, gpus=8)
    pool = {"kind": "pool", "version": "v0.1", "pool": {"name": "roles"}, "nodes": {node: {"gpu-type": "a100"}}}
    quota = {"kind": "quota", "version": "v0.1", "quota": {"name": "q"}, "users": {team: {"gpu": 4}}}
    file = place.file(pool, quota)
    try:
        assert "may not" not in place.anywhere("diff", "-f", file, code=1).err
        assert place.anywhere("apply", "-f", file).err == ""
        assert place.anywhere("apply", "-f", file).err == ""
        for command in (
            ("get", "pools"),
            ("get", "nodes"),
            ("get", "quotas"),
            ("get", "namespaces"),
            ("get", "jobs"),
            ("describe", "pool", "roles"),
            ("describe", "node", node),
            ("describe", "quota", team),
            ("label", "node", node, "example.com/rack=r1"),
            ("remove", "node", node, "--pool", "roles"),
            ("add", "node", node, "--pool", "roles"),
        ):
            assert "may not" not in place.anywhere(*command).err
        refused = place.gpuctl("apply", "-f", place.file(JOBS[0], name="job.yaml"), "-n", "team-a", code=3)
        assert "may not" in refused.err
        assert place.names() == set()
        assert not place.plane.may("keeper", "get", "secrets", team)
        place.anywhere("delete", "-f", place.file(quota), "--yes")
        place.anywhere("delete", "-f", place.file(pool), "--yes")
    finally:
        api.call("DELETE", f"/api/v1/nodes/{node}")
        api.request("DELETE", f"/api/v1/namespaces/{team}")


def test_roles_have_no_wildcards_and_no_escalation() -> None:
    for path in ROLES.glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            text = json.dumps(document.get("rules") or [])
            assert not {"*", "escalate", "bind", "impersonate"} & set(re.findall(r"[\w*]+", text)), path
