"""The rights in deploy/service: nothing the service needs is refused, and nothing it never uses is granted.

The service runs with these rights, all its operations are called, and the API server's audit log shows its requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from control_plane import ControlPlane
from control_plane.audit_log import Asked
from fault_tools.proxy import write_kubeconfig
from support.granted_rights import grants_of, unused, with_creations
from support.real_parts import control_plane_binaries
from support.served import Served, serving
from support.whole_service import QUEUED, TEAM, WholeTour, operations, prepare

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
EXPECTED_REFUSALS: dict[str, set[str]] = {
    "base": set(),
    # Journals are stored where jobs run; the namespaces of pools and quotas contain none.
    "tokens": {"list secrets in gpuctl-system", "list secrets in rights-team"},
}
REREAD = "what has changed between a plan and its write is read again"
DEVICE_RIGHTS = {
    f"gpuctl-server-reader: list {kind}.resource.k8s.io": "asked where there is a DeviceClass"
    for kind in ("resourceslices", "devicetaintrules", "resourceclaims", "resourceclaimtemplates")
}
NOTIFY_RIGHTS = {
    f"gpuctl-server-notifier: {verb} configmaps in gpuctl-system": "used only with channels of `job.notify`"
    for verb in ("get", "update")
}
UNUSED_RIGHTS: dict[str, dict[str, str]] = {
    "base": DEVICE_RIGHTS | NOTIFY_RIGHTS,
    "tokens": {
        **DEVICE_RIGHTS,
        **NOTIFY_RIGHTS,
        **{
            f"gpuctl-server-planner: get {kind}.resource.k8s.io": "asked of pods that name one"
            for kind in ("resourceclaims", "resourceclaimtemplates")
        },
        **{f"gpuctl-server-keeper: get {kind}": REREAD for kind in ("resourcequotas", "limitranges")},
        "gpuctl-server-keeper: update leases.coordination.k8s.io": "a lease that is held for longer is renewed",
        "gpuctl-server-writer: patch jobs/status.batch in team-a": "used only for the failed indexes of an array",
        **{
            f"gpuctl-server-writer: {verb} {kind} in team-a": "used only for routes, disruption budgets and KEDA"
            for kind in (
                "poddisruptionbudgets.policy",
                "scaledobjects.keda.sh",
                "ingresses.networking.k8s.io",
                "httproutes.gateway.networking.k8s.io",
            )
            for verb in ("get", "create", "patch", "delete")
        },
        **{
            f"gpuctl-server-writer: {verb} leaderworkersets.leaderworkerset.x-k8s.io in team-a": "used only for "
            "inferences on several nodes"
            for verb in ("get", "create", "patch", "delete")
        },
        "gpuctl-server-keeper: create workloadpriorityclasses.kueue.x-k8s.io": "used only with `queues.priority`",
        "gpuctl-server-keeper: create resourceflavors.kueue.x-k8s.io": "used only with `quota.backend: kueue`",
        **{
            f"gpuctl-server-keeper: {verb} {kind}.kueue.x-k8s.io": "used only with `quota.backend: kueue`"
            for kind in ("clusterqueues", "localqueues")
            for verb in ("get", "create", "patch", "delete")
        },
        **{
            f"gpuctl-server-writer: {verb} resourceclaimtemplates.resource.k8s.io in team-a": "used only with "
            "`gpu.allocation: dra`"
            for verb in ("get", "create", "patch", "delete")
        },
        "gpuctl-server-writer: create persistentvolumeclaims in team-a": "used only for `pvc.create`",
        "gpuctl-server-writer: get configmaps in team-a": REREAD,
        "gpuctl-server-writer: get services in team-a": REREAD,
        "gpuctl-server-writer: get horizontalpodautoscalers.autoscaling in team-a": REREAD,
    },
}
"""Right -> why it is granted although no request of the tour uses it."""
CLUSTER_WIDE_WRITES: dict[str, set[tuple[str, str]]] = {
    "base": {("tokenreviews", "create"), ("subjectaccessreviews", "create")},
    "tokens": {
        ("nodes", "patch"),
        *((resource, verb) for resource in ("resourcequotas", "limitranges") for verb in ("create", "patch", "delete")),
        *(("namespaces", verb) for verb in ("create", "patch")),
        ("priorityclasses", "create"),
        ("workloadpriorityclasses", "create"),
        ("resourceflavors", "create"),
        *((kind, verb) for kind in ("clusterqueues", "localqueues") for verb in ("create", "patch", "delete")),
        *(("leases", verb) for verb in ("create", "update", "delete")),
    },
}
ACCOUNT = ("gpuctl-system", "gpuctl-server")


@pytest.fixture(scope="module", params=["base", "tokens"])
def flavour(request: pytest.FixtureRequest) -> str:
    """The variant of the deployment: with the cluster's tokens or with its own."""
    return str(request.param)


@pytest.fixture(scope="module")
def audited_plane(flavour: str) -> Iterator[ControlPlane]:
    """A separate control plane that writes an audit log, with the deployment applied."""
    with ControlPlane(control_plane_binaries(queues=True), queues=True, audit=True) as running:
        running.kubectl("apply", "-k", str(DEPLOY / "rbac"))
        running.kubectl("apply", "-f", str(DEPLOY / "rbac" / "bindings.yaml"))
        running.kubectl("apply", "-k", str(DEPLOY / "service" / flavour))
        if flavour == "tokens":
            # This variant needs no PriorityClasses: the service creates them.
            running.kubectl("delete", "-f", str(DEPLOY / "rbac" / "priority-classes.yaml"))
        prepare(running)
        yield running


@contextmanager
def deployed(plane: ControlPlane, directory: Path, flavour: str, platform: str = "") -> Iterator[Served]:
    """Run the service as its pod would: with the token of its ServiceAccount and the settings of its ConfigMap.

    :param platform: YAML appended to the deployed platform document.
    """
    directory.mkdir(exist_ok=True)
    namespace, name = ACCOUNT
    token = plane.kubectl("create", "token", name, "-n", namespace, "--duration=2h").strip()
    authority = str(plane.directory / "certificates" / "apiserver.crt")
    cluster = {"server": f"https://127.0.0.1:{plane.port}", "certificate-authority": authority}
    kubeconfig = write_kubeconfig(directory / "kubeconfig", cluster, token)
    objects = yaml.safe_load_all(plane.kubectl("kustomize", str(DEPLOY / "service" / flavour)))
    data = next(obj["data"] for obj in objects if obj["kind"] == "ConfigMap" and "data" in obj)
    for file, text in data.items():
        (directory / file).write_text(text)
    with (directory / "platform.yaml").open("a") as file:
        file.write(f"{platform}\n")
    settings = {"GPUCTL_SERVER_CONFIG": str(directory / "server.yaml"), "platform": str(directory / "platform.yaml")}
    users = {"member": ("user", (TEAM,), None), "keeper": ("admin", None, None)}
    with serving(directory, kubeconfig, users, **settings) as running:
        if flavour == "base":
            running.tokens = {user: plane.tokens[user] for user in users}
        yield running


@pytest.fixture(scope="module")
def sent_requests(audited_plane: ControlPlane, flavour: str, tmp_path_factory: pytest.TempPathFactory) -> list[Asked]:
    """All requests of the service's own account while every operation was called."""
    directory = tmp_path_factory.mktemp("deployed")
    with deployed(audited_plane, directory / "own", flavour) as own:
        tour = WholeTour(own, audited_plane, directory, "member", "keeper")
        tour.pools()
        tour.quotas()
        tour.jobs()
        tour.commands()
        tour.follow("serve")
        tour.stuck()
        tour.interrupted()
    with deployed(audited_plane, directory / "own", flavour, QUEUED) as own:
        tour.served = own
        tour.recovered("keeper" if flavour == "tokens" else "member")
        tour.queued()
        tour.remove()
    # These operations send no requests to the cluster.
    left = set(operations().values()) - tour.done
    assert {name for name in left if not re.search("Usage|Snapshot|HeldModels", name)} == {"getJobMetrics", "listAudit"}
    assert audited_plane.audit is not None
    return list(with_creations(audited_plane.audit.asked(f"system:serviceaccount:{':'.join(ACCOUNT)}")))


def test_no_needed_right_is_refused(sent_requests: list[Asked], flavour: str) -> None:
    refused = {f"{item.verb} {item.resource} in {item.namespace}" for item in sent_requests if item.status == 403}
    assert refused == EXPECTED_REFUSALS[flavour]


def test_no_unused_right_is_granted(audited_plane: ControlPlane, sent_requests: list[Asked], flavour: str) -> None:
    grants, named = grants_of(audited_plane, *ACCOUNT), UNUSED_RIGHTS[flavour].keys()
    assert set(map(str, unused(grants, sent_requests))) <= named
    assert named <= set(map(str, grants))


def test_service_account_is_not_an_administrator(
    audited_plane: ControlPlane, sent_requests: list[Asked], flavour: str
) -> None:
    """No wildcards, no RBAC rights; Secrets only where jobs are submitted; nodes can only be patched."""
    grants = grants_of(audited_plane, *ACCOUNT)
    assert not any("*" in (item.group, item.resource, item.verb) for item in grants)
    assert not {item.verb for item in grants} & {"escalate", "bind", "impersonate", "deletecollection"}
    assert not any(item.group == "rbac.authorization.k8s.io" for item in grants)
    assert {item.namespace for item in grants if item.resource == "secrets"} <= {TEAM}
    writing = [item for item in grants if item.verb not in ("get", "list", "watch") and item.namespace == ""]
    assert {(item.resource, item.verb) for item in writing} == CLUSTER_WIDE_WRITES[flavour]
    assert not any(item.resource in ("pods/exec", "pods/portforward", "serviceaccounts/token") for item in grants)


def test_user_roles_cover_fit_and_why(audited_plane: ControlPlane, sent_requests: list[Asked]) -> None:
    """The roles of deploy/rbac cover everything that `fit` and `why` read."""
    assert audited_plane.may("member", "list", "endpointslices.discovery.k8s.io", TEAM)
    for resource in (
        "runtimeclasses.node.k8s.io",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "jobs.batch",
        "jobsets.jobset.x-k8s.io",
        "volumeattachments.storage.k8s.io",
        "deviceclasses.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "devicetaintrules.resource.k8s.io",
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
    ):
        assert audited_plane.may("member", "list", resource), resource
