"""The status that each role gets from each operation, for its own objects, for others' objects and for missing ones.

The columns are places, the rows roles. A place means, as far as an operation can name it:

========  =============================================================================================
own       a job, node or pool of the pool ``who-pool`` in the namespace ``who-a``, the quota of ``who-a``
foreign   the same in the namespace ``who-b``
pool      the same in the namespace ``who-a``, of the pool ``who-other``
system    the same in ``kube-system``
absent    an object that does not exist, in a namespace or pool that does not exist
========  =============================================================================================

A request without a token, or with an expired or revoked one, gets 401 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from gpuctl_server.access.tokens import new_token, read_tokens, write_tokens
from support.cluster_tools import fresh_namespaces, training
from support.documents_sent import sent, text_of
from support.served import Served, serving
from support.small_usage import one_hour

POOL, OTHER_POOL, ABSENT_POOL = "who-pool", "who-other", "who-absent-pool"
OWN, FOREIGN, SYSTEM, ABSENT = "who-a", "who-b", "kube-system", "who-absent"
ROLES = {
    "admin": ("admin", None, None),
    "local": ("admin", (OWN,), None),
    "pooled": ("admin", None, (POOL,)),
    "user": ("user", (OWN,), (POOL,)),
    "free": ("user", None, None),
    "viewer": ("viewer", None, None),
}
STRANGERS = ("", "expired", "revoked")
LABEL = "who.example.com/label"


QUOTA = {
    "name": "who",
    "users": {namespace: {"cpu": 500, "memory": "900Gi"} for namespace in (OWN, FOREIGN)},
}


class Target(NamedTuple):
    """The objects of a place: namespace and pool of a job, a node, and whether they exist."""

    namespace: str
    pool: str
    node: str
    exists: bool = True


PLACES = {
    "own": Target(OWN, POOL, "who-0"),
    "foreign": Target(FOREIGN, POOL, "who-0"),
    "pool": Target(OWN, OTHER_POOL, "who-1"),
    "system": Target(SYSTEM, POOL, "who-0"),
    "absent": Target(ABSENT, ABSENT_POOL, "who-absent-node", exists=False),
}


class Attempt(NamedTuple):
    """One request: the role that sends it and the place it concerns."""

    role: str
    place: str

    @property
    def target(self) -> Target:
        return PLACES[self.place]

    @property
    def job(self) -> str:
        """The name of the job that exists for this role and place only."""
        return f"who-{self.place}-{self.role or 'nobody'}"

    def document(self, name: str = "") -> dict[str, Any]:
        """Return a document of a job at the place."""
        target = self.target
        return training(
            name or self.job, job={"namespace": target.namespace}, resources={"pool": target.pool, "gpu": 0}
        )


Request = tuple[str, str, dict[str, Any]]


class Row(NamedTuple):
    """An operation: its request, the table of expected statuses, and how to read the status of the answer."""

    ask: Callable[[Attempt], Request]
    table: str
    read: Callable[[int, Any], int] = lambda status, value: status


def get(path: str, **query: str) -> Callable[[Attempt], Request]:
    return method("GET", path, params=query)


def method(name: str, path: str, **rest: Any) -> Callable[[Attempt], Request]:
    """Return a request whose path and parameters are formatted with the names of the place."""

    def filled(value: Any, attempt: Attempt) -> Any:
        if isinstance(value, dict):
            return {key: filled(item, attempt) for key, item in value.items()}
        target = attempt.target
        names = {"job": attempt.job, "namespace": target.namespace, "pool": target.pool, "node": target.node}
        return value.format(**names, role=attempt.role or "nobody") if isinstance(value, str) else value

    return lambda attempt: (name, filled(path, attempt), {key: filled(value, attempt) for key, value in rest.items()})


def documents(path: str, **body: Any) -> Callable[[Attempt], Request]:
    return lambda attempt: ("POST", path, {"json": sent(attempt.document("who-new"), **body)})


def named(path: str, **body: Any) -> Callable[[Attempt], Request]:
    return lambda attempt: ("POST", path, {"json": {"names": [attempt.job], **body}})


def status_of_failed_entry(status: int, value: Any) -> int:
    """Return the status that the only entry of a batch would have got."""
    return {"AlreadyExists": 409, "Forbidden": 403}[value["failed"][0]["error"]] if status == 201 else status


def status_of_wait(status: int, value: Any) -> int:
    """Return the status of a wait for several jobs; 404 if the requested job does not exist."""
    return 404 if status == 200 and any(item["outcome"] == "gone" for item in value["items"]) else status


READS_JOBS = """
         own  foreign  pool  system  absent
admin    200  200      200   200     404
local    200  404      200   404     404
pooled   200  200      404   404     404
user     200  404      404   404     404
free     200  200      200   404     404
viewer   200  200      200   404     404
"""
CHANGES_JOBS = """
         own  foreign  pool  system  absent
admin    200  200      200   200     404
local    200  404      200   404     404
pooled   200  200      404   404     404
user     200  404      404   404     404
free     200  200      200   404     404
viewer   403  403      403   403     403
"""
SENDS_DOCUMENTS = """
         own  foreign  pool  system  absent
admin    200  200      200   200     {new}
local    200  403      200   403     403
pooled   200  200      403   403     403
user     200  403      403   403     403
free     200  200      200   403     {absent}
viewer   {viewer}  {viewer}      {viewer}   {system}     {viewer}
"""
BY_NAMESPACE = """
         own  foreign  system  absent
admin    200  200      200     200
local    200  403      403     403
pooled   200  200      403     200
user     200  403      403     403
free     200  200      403     200
viewer   200  200      403     200
"""
READS_ALL = """
         own
admin    200
local    200
pooled   200
user     200
free     200
viewer   200
"""
FOR_THE_ADMIN = """
         own
admin    200
local    403
pooled   403
user     403
free     403
viewer   403
"""
READS_NODES = """
         own  pool  absent
admin    200  200   404
local    200  200   404
pooled   200  404   404
user     200  404   404
free     200  200   404
viewer   200  200   404
"""
SETS_LABELS = """
         own  pool  absent
admin    200  200   404
local    403  403   403
pooled   200  404   404
user     403  403   403
free     403  403   403
viewer   403  403   403
"""
BY_POOL = """
         own  pool  absent
admin    200  200   {absent}
local    200  200   {absent}
pooled   200  403   403
user     200  403   403
free     200  200   {absent}
viewer   200  200   {absent}
"""
CHANGES_POOLS = """
         own  pool  absent
admin    {own}  {own}   {absent}
local    403  403   403
pooled   {own}  403   403
user     403  403   403
free     403  403   403
viewer   403  403   403
"""
QUOTAS = """
         own  foreign  absent
admin    {there}  {there}      {absent}
local    {local}  {hidden}      {hidden}
pooled   {pooled}  {pooled}      {gone}
user     {user}  {hidden}      {hidden}
free     {free}  {free}      {gone}
viewer   {free}  {free}      {gone}
"""
RECOVERS = """
         own  foreign  system  absent
admin    200  200      200     200
local    200  403      403     403
pooled   403  403      403     403
user     403  403      403     403
free     403  403      403     403
viewer   403  403      403     403
"""
OF_ALL_NAMESPACES = """
         own
admin    200
local    403
pooled   403
user     403
free     200
viewer   200
"""
OF_ALL_POOLS = """
         own
admin    200
local    200
pooled   403
user     403
free     200
viewer   200
"""
USAGE_BY_NAMESPACE = """
         own  foreign  system  absent
admin    200  200      200     200
local    200  403      403     403
pooled   403  403      403     403
user     403  403      403     403
free     200  200      403     200
viewer   200  200      403     200
"""
HOURS = {"start_time": "2025-11-05T00:00:00Z", "end_time": "2025-11-06T00:00:00Z"}
OF_TEAM = {"dimension_type": "label", "dimension_key": "team"}
USAGE = "/gpu-aggregation"
WAIT_NOT = {"condition": "running", "timeout": 0}
DOCUMENT_OF_JOB: Callable[[Attempt], Request] = lambda attempt: (  # noqa: E731
    "PUT",
    f"/jobs/{attempt.job}",
    {"json": sent(attempt.document(), dryRun=True)},
)

ROWS: dict[str, Row] = {
    "listJobs": Row(get("/jobs", namespace="{namespace}"), BY_NAMESPACE),
    "listPods": Row(get("/pods", namespace="{namespace}"), BY_NAMESPACE),
    "getGpuUse": Row(get("/gpu-use", namespace="{namespace}"), BY_NAMESPACE),
    "getJob": Row(get("/jobs/{job}"), READS_JOBS),
    "getJobDetails": Row(get("/jobs/{job}/details"), READS_JOBS),
    "getJobWhy": Row(get("/jobs/{job}/why"), READS_JOBS),
    "getJobTimeline": Row(get("/jobs/{job}/timeline"), READS_JOBS),
    "getJobHistory": Row(get("/jobs/{job}/history"), READS_JOBS),
    "getJobRevision": Row(get("/jobs/{job}/history/1"), READS_JOBS),
    "rollbackJob": Row(method("POST", "/jobs/{job}/rollback", params={"to": 1, "dryRun": True}), CHANGES_JOBS),
    "waitJob": Row(method("POST", "/jobs/{job}/wait", json={"condition": "running", "timeout": 0}), READS_JOBS),
    "waitJobs": Row(
        lambda attempt: ("POST", "/jobs/wait", {"json": {"jobs": [{"job": attempt.job}], **WAIT_NOT}}),
        READS_JOBS,
        status_of_wait,
    ),
    "getJobLogs": Row(get("/jobs/{job}/logs"), READS_JOBS),
    # No metrics backend is set: a caller with the right gets 503.
    "getJobMetrics": Row(get("/jobs/{job}/metrics"), READS_JOBS.replace("200", "503")),
    "createJobs": Row(
        documents("/jobs", dryRun=True), SENDS_DOCUMENTS.format(new=200, absent=403, viewer=403, system=403)
    ),
    "createJobBatch": Row(
        lambda attempt: ("POST", "/jobs/batch", {"json": {"yamlContents": [text_of(attempt.document())]}}),
        # An existing job is refused after the right was checked; a missing one would be created.
        SENDS_DOCUMENTS.format(new="-", absent=403, viewer=403, system=403).replace("200", "409"),
        status_of_failed_entry,
    ),
    "applyDocuments": Row(
        documents("/apply", dryRun=True), SENDS_DOCUMENTS.format(new=200, absent=403, viewer=403, system=403)
    ),
    "planDocuments": Row(documents("/plan"), SENDS_DOCUMENTS.format(new=200, absent=200, viewer=200, system=403)),
    "fitDocuments": Row(documents("/fit"), SENDS_DOCUMENTS.format(new=200, absent=200, viewer=200, system=403)),
    "fitWaiting": Row(get("/fit", namespace="{namespace}"), BY_NAMESPACE),
    "updateJob": Row(DOCUMENT_OF_JOB, CHANGES_JOBS),
    "pauseJob": Row(method("POST", "/jobs/{job}/pause"), CHANGES_JOBS),
    "resumeJob": Row(method("POST", "/jobs/{job}/resume"), CHANGES_JOBS),
    # The job has not ended, so it cannot be run again.
    "runJob": Row(method("POST", "/jobs/{job}/run"), CHANGES_JOBS.replace("200", "409")),
    "rerunJob": Row(method("POST", "/jobs/{job}/rerun"), CHANGES_JOBS.replace("200", "409")),
    # The job is not elastic.
    "scaleJob": Row(method("POST", "/jobs/{job}/scale?nodes=2"), CHANGES_JOBS.replace("200", "409")),
    "scaleJobs": Row(named("/jobs/scale?nodes=2"), CHANGES_JOBS.replace("200", "409")),
    "pauseJobs": Row(named("/jobs/pause"), CHANGES_JOBS),
    "resumeJobs": Row(named("/jobs/resume"), CHANGES_JOBS),
    "runJobs": Row(named("/jobs/run"), CHANGES_JOBS.replace("200", "409")),
    "rerunJobs": Row(named("/jobs/rerun"), CHANGES_JOBS.replace("200", "409")),
    "deleteJobs": Row(named("/jobs/delete", dryRun=True), CHANGES_JOBS),
    "deleteDocuments": Row(
        documents("/delete", dryRun=True), SENDS_DOCUMENTS.format(new=200, absent=200, viewer=403, system=403)
    ),
    # Jobs select the pool: its deletion has to be confirmed.
    "deletePools": Row(
        lambda attempt: ("POST", "/pools/delete", {"json": {"names": [attempt.target.pool]}}),
        CHANGES_POOLS.format(own=409, absent=404),
    ),
    "deleteQuotas": Row(
        lambda attempt: ("POST", "/quotas/delete", {"json": {"names": [attempt.target.namespace], "dryRun": True}}),
        QUOTAS.format(there=200, absent=404, local=403, hidden=403, pooled=403, user=403, free=403, gone=403),
    ),
    "recover": Row(method("POST", "/recoveries", params={"namespace": "{namespace}"}), RECOVERS),
    "listRecoveries": Row(get("/recoveries", namespace="{namespace}"), RECOVERS),
    "listPools": Row(get("/pools"), READS_ALL),
    "getPool": Row(get("/pools/{pool}"), BY_POOL.format(absent=404)),
    # An absent pool would be created.
    "createPool": Row(method("POST", "/pools", json={"name": "{pool}"}), CHANGES_POOLS.format(own=409, absent="-")),
    # A document of another pool is refused after the right was checked.
    "updatePool": Row(
        method("PUT", "/pools/{pool}", json={"name": "who-third"}), CHANGES_POOLS.format(own=400, absent=400)
    ),
    # The node is in a pool already.
    "addNodes": Row(
        method("POST", "/pools/{pool}/nodes/add", json={"nodeNames": ["who-0"]}),
        CHANGES_POOLS.format(own=200, absent=404),
    ),
    "removeNodes": Row(
        method("POST", "/pools/{pool}/nodes/remove", json={"nodeNames": ["who-0"], "dryRun": True}),
        CHANGES_POOLS.format(own=200, absent=200),
    ),
    "listNodes": Row(get("/nodes", pool="{pool}"), BY_POOL.format(absent=200)),
    "listGpus": Row(get("/nodes/gpu-detail"), READS_ALL),
    "listGpuTypes": Row(get("/gpu-types"), READS_ALL),
    "getNode": Row(get("/nodes/{node}"), READS_NODES),
    "listNodesWithLabel": Row(get("/nodes/labels", key=LABEL), READS_ALL),
    "listGpuLabels": Row(get("/nodes/labels/all"), READS_ALL),
    "listNodeLabels": Row(get("/nodes/{node}/labels"), READS_NODES),
    "setNodeLabel": Row(
        # The label has another value: nothing is set.
        method("POST", "/nodes/{node}/labels", json={"key": LABEL, "value": "other"}),
        SETS_LABELS.replace("200", "409"),
    ),
    "setLabelOfNodes": Row(
        method("POST", "/nodes/labels/batch", json={"nodeNames": ["who-0"], "key": LABEL, "value": "other"}),
        FOR_THE_ADMIN.replace("pooled   403", "pooled   200"),
    ),
    "changeLabelsOfNodes": Row(
        method("POST", "/nodes/labels/changes", json={"nodeNames": ["who-0"], "labels": {LABEL: "other"}}),
        FOR_THE_ADMIN.replace("pooled   403", "pooled   200"),
    ),
    "getNodeLabel": Row(get(f"/nodes/{{node}}/labels/{LABEL}"), READS_NODES),
    "deleteNodeLabel": Row(method("DELETE", "/nodes/{node}/labels/who.example.com/{role}"), SETS_LABELS),
    "listQuotas": Row(get("/quotas"), READS_ALL),
    "getQuota": Row(
        get("/quotas/{namespace}"),
        QUOTAS.format(there=200, absent=404, local=200, hidden=404, pooled=200, user=200, free=200, gone=404),
    ),
    "createQuota": Row(
        method("POST", "/quotas", json={"name": "who-{namespace}", "users": {"team-of-nobody": {"gpu": "x"}}}),
        # The quota is invalid: nothing is created, and only an unlimited admin gets the reason.
        FOR_THE_ADMIN.replace("200", "400"),
    ),
    "listQueues": Row(get("/queues"), READS_ALL),
    # Kueue is not installed.
    "getQueue": Row(get("/queues/absent"), READS_ALL.replace("200", "404")),
    "listNamespaces": Row(get("/namespaces"), READS_ALL),
    "getNamespace": Row(
        get("/namespaces/{namespace}"),
        QUOTAS.format(there=200, absent=404, local=200, hidden=404, pooled=200, user=200, free=200, gone=404),
    ),
    "checkRight": Row(method("POST", "/auth/check", json={"resource": "jobs", "action": "get"}), READS_ALL),
    "listAudit": Row(get("/audit"), FOR_THE_ADMIN),
    "listUsageClusters": Row(get(f"{USAGE}/clusters"), READS_ALL),
    "listUsageNamespaces": Row(get(f"{USAGE}/namespaces"), OF_ALL_POOLS),
    "listUsageKeys": Row(get(f"{USAGE}/dimension-keys"), OF_ALL_NAMESPACES),
    "listUsageValues": Row(get(f"{USAGE}/dimension-values", dimension_key="team"), OF_ALL_NAMESPACES),
    "getClusterUsage": Row(get(f"{USAGE}/cluster/hourly-stats", **HOURS), OF_ALL_NAMESPACES),
    "getLabelUsage": Row(get(f"{USAGE}/labels/hourly-stats", **OF_TEAM, **HOURS), OF_ALL_NAMESPACES),
    "getNamespaceUsage": Row(
        get(f"{USAGE}/namespaces/hourly-stats", namespace="{namespace}", **HOURS), USAGE_BY_NAMESPACE
    ),
    "getWorkloadUsage": Row(
        get(f"{USAGE}/workloads/hourly-stats", namespace="{namespace}", **HOURS), USAGE_BY_NAMESPACE
    ),
    "getUsageLedger": Row(get(f"{USAGE}/ledger", **HOURS), OF_ALL_NAMESPACES),
    "listHeldModels": Row(get(f"{USAGE}/workloads/models", namespace="{namespace}", **HOURS), USAGE_BY_NAMESPACE),
    "getUsageWaste": Row(get(f"{USAGE}/waste"), OF_ALL_POOLS),
    "getLatestSnapshot": Row(get(f"{USAGE}/snapshots/latest"), OF_ALL_POOLS),
    "listSnapshots": Row(get(f"{USAGE}/snapshots"), OF_ALL_POOLS),
    "deletePool": Row(
        # Jobs select the pool: its deletion has to be confirmed.
        method("DELETE", "/pools/{pool}"),
        CHANGES_POOLS.format(own=409, absent=404),
    ),
    "deleteQuota": Row(
        method("DELETE", "/quotas/{namespace}"),
        QUOTAS.format(there=200, absent=404, local=403, hidden=403, pooled=403, user=403, free=403, gone=403),
    ),
    "deleteJob": Row(method("DELETE", "/jobs/{job}"), CHANGES_JOBS),
}


def parse_table(table: str) -> dict[tuple[str, str], int]:
    """Parse a table into (role, place) -> status; a dash means that no request is sent."""
    head, *lines = (line.split() for line in table.strip().splitlines())
    found = {(line[0], place): status for line in lines for place, status in zip(head, line[1:], strict=True)}
    return {cell: int(status) for cell, status in found.items() if status != "-"}


@pytest.fixture(scope="module")
def world(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Start the service with a token for each role, and create a job for each role at each place."""
    directory = tmp_path_factory.mktemp("who")
    fresh_namespaces(plane, OWN, FOREIGN)
    for number in (0, 1):
        plane.add_node(f"who-{number}", gpus=8, cpu="64", memory="256Gi", labels={LABEL: "x"})
        plane.kubectl("label", "node", f"who-{number}", *(f"who.example.com/{role}=x" for role in ROLES))
    usage = one_hour(directory, plane)
    more = {"usage_database": usage, "label_keys": '["who.example.com/"]'}
    with serving(directory, plane.kubeconfig(), ROLES, **more) as served:  # type: ignore[arg-type]
        expired, entry = new_token("expired", "admin", lasts=timedelta(seconds=-1))
        write_tokens(directory / "tokens.json", [*read_tokens(directory / "tokens.json"), entry])
        revoked, _ = new_token("revoked", "admin")
        served.tokens = {**served.tokens, "expired": expired, "revoked": revoked}
        for name, node in ((POOL, "who-0"), (OTHER_POOL, "who-1")):
            served.call("POST", "/pools", status=201, json={"name": name, "nodes": [node]})
        served.call("POST", "/quotas", status=201, json=QUOTA)
        there = [Attempt(role, place).document() for role in ROLES for place, target in PLACES.items() if target.exists]
        served.call("POST", "/jobs", status=201, json=sent(*there))
        yield served
    for namespace in (OWN, FOREIGN):
        plane.kubectl("delete", "namespace", namespace, "--wait=false")
    plane.kubectl("delete", "jobs", "-n", SYSTEM, "--all", "--wait=false")
    plane.kubectl("delete", "node", "who-0", "who-1", "--wait=false")
    pools = [f"pool-{name}" for name in (POOL, OTHER_POOL, ABSENT_POOL)]
    plane.kubectl("delete", "configmap", "-n", "gpuctl-system", *pools, "--wait=false", check=False)


def test_every_operation_has_a_row(world: Served) -> None:
    paths = world.get("/openapi.json")["paths"]
    served = {operation["operationId"] for item in paths.values() for operation in item.values()}
    assert set(ROWS) == served


def test_admin_of_a_pool_cannot_take_nodes_from_other_pools(world: Served) -> None:
    """Neither a pool change nor a document moves the node, and the answer does not reveal which nodes exist."""
    world.call("PUT", f"/pools/{POOL}", "pooled", json={"nodes": ["who-0"]})
    for nodes in (["who-0", "who-1"], ["who-absent-node"]):
        answer = world.call("PUT", f"/pools/{POOL}", "pooled", status=403, json={"nodes": nodes})
        assert (
            answer["message"]
            == f"pooled may not put node {nodes[-1]} into a pool: the node is not in a pool of this token"
        )
        document = {"kind": "pool", "version": "v0.1", "pool": {"name": POOL}, "nodes": {name: {} for name in nodes}}
        world.call("POST", "/jobs", "pooled", status=403, json=sent(document))
    assert [node["nodeName"] for node in world.get("/nodes", pool=OTHER_POOL)["items"]] == ["who-1"]
    assert [node["nodeName"] for node in world.get("/nodes", pool=POOL)["items"]] == ["who-0"]


DELETING = frozenset({"deleteJob", "deleteNodeLabel", "deleteQuota"})
"""Operations that delete an object which other rows need."""


def restore(served: Served, plane: ControlPlane) -> None:
    """Create again what an earlier operation, or an earlier run of this one, deleted."""
    for number in (0, 1):
        labels = [f"who.example.com/{role}=x" for role in ROLES]
        plane.kubectl("label", "--overwrite", "node", f"who-{number}", *labels)
    quotas = {item["metadata"]["namespace"] for item in plane.get("resourcequotas", "-A")["items"]}
    if not {OWN, FOREIGN} <= quotas:
        for namespace in (OWN, FOREIGN):
            served.client().delete(f"/quotas/{namespace}", params={"confirm": "true"})
        served.call("POST", "/quotas", status=201, json=QUOTA)
    attempts = [Attempt(role, place) for role in ROLES for place, target in PLACES.items() if target.exists]

    def whole() -> bool:
        items = [item["metadata"] for item in plane.get("jobs", "-A")["items"]]
        there = {(item["namespace"], item["name"]) for item in items if "deletionTimestamp" not in item}
        missing = [text_of(one.document()) for one in attempts if (one.target.namespace, one.job) not in there]
        if missing:
            served.call("POST", "/jobs/batch", status=201, json={"yamlContents": missing})
        return not missing

    plane.wait_for(whole, "the jobs")
    wanted = {one.job for one in attempts}
    served.until("/jobs", lambda value: wanted <= {item["name"] for item in value["items"]}, pageSize=1000)


@pytest.mark.parametrize("operation", ROWS)
def test_each_role_gets_the_expected_status(world: Served, plane: ControlPlane, operation: str) -> None:
    row = ROWS[operation]
    if operation in DELETING:
        restore(world, plane)
    wanted = parse_table(row.table)
    found = {}
    for role, place in wanted:
        name, path, rest = row.ask(Attempt(role, place))
        response = world.client(role).request(name, path, **rest)
        found[role, place] = row.read(response.status_code, response.json())
    assert found == wanted
    for stranger in STRANGERS:
        for place in {place for _, place in wanted}:
            name, path, rest = row.ask(Attempt(stranger, place))
            answer = world.call(name, path, stranger, status=401, **rest)
            said = answer["error"] if path.startswith(USAGE) else answer["message"]
            assert said == "the token is missing, invalid or expired"
