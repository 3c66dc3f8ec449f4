"""Refusals before anything is deleted, and confirmations: the running object stays unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy
from fault_tools.world import Api
from gpuctl.objects.api_resources import RESOURCES
from properties.scale import part_of
from support.cluster_tools import DOMAIN, Place, compute, image, inference, training

V2 = {"environment": image("v2")}


def quota(place: Place, **hard: int) -> None:
    """Create a quota for GPUs and other resources, and wait until the API server has counted its use."""
    names = {"gpu": "requests.nvidia.com/gpu", "jobs": "count/jobs.batch"}
    spec = {"hard": {names[name]: str(value) for name, value in hard.items()}}
    place.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits"}, "spec": spec})
    place.until(lambda: place.get("ResourceQuota", "limits")["status"].get("used"), "the quota's use")


def used(place: Place) -> int:
    """Return the number of GPUs that the quota counts as used."""
    return int(place.get("ResourceQuota", "limits")["status"]["used"]["requests.nvidia.com/gpu"])


@pytest.fixture
def running(place: Place) -> Iterator[str]:
    """A running training: yields its uid, and checks that job and pods are unchanged after the test."""
    place.apply(training())
    place.running("train")
    uid, pods = place.uid("Job", "train"), place.pods("train")
    yield uid
    assert place.uid("Job", "train") == uid
    assert place.pods("train") == pods
    assert place.objects(("Secret", "Lease")) == {}


def refused(place: Place, *documents: dict[str, Any], flags: tuple[str, ...] = ("--yes",)) -> str:
    """Apply documents that must be refused; check that the preview prints the same errors, and return the messages."""
    preview = place.apply(*documents, flags=("--dry-run=server", *flags), code=1)
    outcome = place.apply(*documents, flags=flags, code=1)
    assert "nothing was changed" in outcome.err
    for line in outcome.err.splitlines():
        if line.startswith("error: "):
            assert line in preview.err
    value = place.apply(*documents, flags=("-o", "json", *flags), code=1).value
    assert value["error"]
    assert {step["result"] for step in value["steps"]} == {"planned"}
    return outcome.err


def _until_refused(place: Place, document: dict[str, Any]) -> None:
    """Wait until admission enforces a new object, which it receives by a watch."""
    place.until(lambda: place.apply(document, flags=("--dry-run=server",), code=None).code == 1, "the refusal")


def test_apply_refuses_more_gpus_than_the_quota(place: Place, running: str) -> None:
    quota(place, gpu=2)
    said = refused(place, training(resources={"gpu": 3}, **V2))
    assert "quota limits: requests.nvidia.com/gpu would be 3 of 2" in said


@pytest.mark.slow
def test_apply_refuses_jobs_that_exceed_the_quota_together(place: Place, running: str) -> None:
    quota(place, gpu=3)
    place.until(lambda: used(place) == 1, "the use of what runs")
    for number in (1, 2, 3):
        place.plan(training(f"next-{number}"))
    said = refused(place, *[training(f"next-{number}") for number in (1, 2, 3)])
    assert "would be 4 of 3 (in use 1, needed 3)" in said


@pytest.mark.slow
def test_replacement_counts_the_quota_freed_by_the_old_job(place: Place) -> None:
    place.apply(training(resources={"gpu": 2}))
    place.running("train")
    quota(place, gpu=3)
    place.until(lambda: used(place) == 2, "the use of what runs")
    uid = place.uid("Job", "train")
    place.apply(training(resources={"gpu": 3}), flags=("--yes",))
    assert place.uid("Job", "train") != uid
    place.running("train")


@pytest.mark.slow
def test_apply_refuses_more_jobs_than_the_quota(place: Place, running: str) -> None:
    quota(place, jobs=2)
    said = refused(place, training("a"), training("b"))
    assert "count/jobs.batch would be 3 of 2" in said


def test_apply_refuses_pods_beyond_a_limit_range(place: Place, running: str) -> None:
    limits = {"limits": [{"type": "Container", "max": {"memory": "8Gi"}}]}
    place.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits})
    _until_refused(place, training(resources={"memory": "16Gi"}))
    said = refused(place, training(resources={"memory": "16Gi"}))
    assert "job.batch/train" in said
    assert "maximum memory usage per Container is 8Gi, but limit is 16Gi" in said


def test_apply_refuses_pod_security_violations(place: Place, running: str) -> None:
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    place.api.call("PATCH", f"/api/v1/namespaces/{place.namespace}", labels, "application/merge-patch+json")
    _until_refused(place, training(**V2))
    said = refused(place, training(**V2))
    assert 'violates PodSecurity "restricted' in said


@pytest.mark.slow
def test_missing_priority_class_is_created(place: Place, running: str) -> None:
    """It is a shared object of the documents: if it does not exist, it is created before the job."""
    plane = place.plane
    plane.kubectl("delete", "priorityclass", "gpuctl-high", "--ignore-not-found")
    plan = place.plan(training(job={"priority": "high"}))
    assert any(step["name"] == "gpuctl-high" and step["action"] == "create" for step in plan.value["steps"])


@pytest.mark.slow
def test_missing_priority_class_without_rights_is_refused(
    place: Place, running: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dry-run of a Job does not detect it, but the Job's pods would never be created."""
    place.grant("nobody", "admin")
    monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig("nobody")))
    place.platform("priorities: {high: {className: drill-gone, value: 7000000}}")
    said = refused(place, training(job={"priority": "high"}))
    assert "job.batch/train" in said
    assert "no PriorityClass with name drill-gone was found" in said
    assert "gpuctl-check" not in said


@pytest.mark.slow
def test_priority_class_with_another_value_is_refused(place: Place, running: str) -> None:
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "drill-urgent"},
        "value": 9,
    }
    # The class of a failed first attempt may still exist.
    place.plane.kubectl("delete", "priorityclass", "drill-urgent", "--ignore-not-found")
    place.plane.create(body)
    place.platform("priorities: {high: {className: drill-urgent, value: 7000000}}")
    said = refused(place, training("other", job={"priority": "high"}))
    assert "PriorityClass drill-urgent has the value 9 in the cluster and 7000000 here" in said


@pytest.mark.slow
def test_missing_pull_secret_blocks_only_replacements(place: Place, running: str) -> None:
    secret = {"environment": {**image("v2"), "imagePullSecret": "registry"}}
    said = refused(place, training(**secret))
    assert f"there is no pull secret registry in {place.namespace}" in said
    note = place.apply(training("fresh", **secret))
    assert "note: there is no pull secret registry" in note.err
    assert place.exists("Job", "fresh")


@pytest.mark.slow
def test_pool_without_nodes_blocks_only_replacements(place: Place, running: str) -> None:
    said = refused(place, training(resources={"pool": "nowhere"}))
    assert "no node has the labels runwhere.ai/pool=nowhere" in said
    assert "its running pods would be ended" in said
    note = place.apply(training("fresh", resources={"pool": "nowhere"}))
    assert "note: no node has the labels runwhere.ai/pool=nowhere" in note.err


def test_misspelt_pool_suggests_a_similar_name(place: Place, running: str) -> None:
    meant = "no node has the labels runwhere.ai/pool=dril (did you mean runwhere.ai/pool=drill?)"
    said = refused(place, training(resources={"pool": "dril"}))
    assert f"training/train: {meant}, and its running pods would be ended" in said
    fresh = training("fresh", resources={"pool": "dril"})
    for looked in (place.plan(fresh), place.gpuctl("diff", "-f", place.file(fresh), "-o", "json", code=1)):
        assert looked.value["notes"] == [f"{meant}, which training/fresh will wait for"]
    assert f"note: {meant}" in place.gpuctl("diff", "-f", place.file(fresh), code=1).err


@pytest.mark.slow
def test_misspelt_gpu_type_suggests_a_type_of_the_pool(place: Place, running: str, api: Api) -> None:
    """GPU types of nodes in other pools are not suggested."""
    for node, pool, gpu_type in (("typed-1", "typed", "a100-80g"), ("typed-2", "other", "a100-40g")):
        labels = {f"{DOMAIN}/pool": pool, f"{DOMAIN}/gpu-type": gpu_type}
        place.plane.add_node(f"{place.namespace[:40]}-{node}", labels=labels, gpus=8)
    place.plane.wait_for_nodes()
    try:
        wrong = training("fresh", resources={"pool": "typed", "gpu-type": "a100-40gb"})
        (note,) = place.plan(wrong).value["notes"]
        where = f"{DOMAIN}/gpu-type=a100-40gb, {DOMAIN}/pool=typed"
        assert note == (
            f"no node has the labels {where} (did you mean {DOMAIN}/gpu-type=a100-80g?), which training/fresh will wait for"
        )
        assert place.plan(training("fresh", resources={"pool": "typed", "gpu-type": "a100-80g"})).value["notes"] == []
    finally:
        for node in ("typed-1", "typed-2"):
            api.call("DELETE", f"/api/v1/nodes/{place.namespace[:40]}-{node}")


@pytest.mark.slow
def test_more_gpus_than_any_node_is_noted_or_asked(place: Place, running: str) -> None:
    """A larger node may join later: a new job gets a note; replacing running pods asks."""
    large = f"no node with {DOMAIN}/pool=drill has 65 nvidia.com/gpu (the largest, drill-0, has 64)"
    noted = place.apply(training("fresh", resources={"gpu": 65}))
    assert f"note: {large}: training/fresh cannot start" in noted.err
    assert place.plan(training("right", resources={"gpu": 64})).value["notes"] == []
    asked = place.apply(training(resources={"gpu": 65}), code=2)
    assert f"training/train: {large}, and its running pods would be ended" in asked.err
    assert "cannot ask for confirmation" in asked.err


def missing_objects(namespace: str) -> dict[str, tuple[dict[str, Any], str]]:
    """Return references to objects that do not exist: changes to a training, and the object's title in messages."""
    config = {"name": "conf", "configMap": {"name": "conf"}}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    optional = {"name": "may", "secret": {"secretName": "may", "optional": True}}
    sources = [{"secret": {"name": "part"}}, {"configMap": {"name": "may", "optional": True}}]
    mixed = {"name": "mixed", "projected": {"sources": sources}}
    from_all = {"containers": [{"name": "main", "envFrom": [{"configMapRef": {"name": "all"}}]}]}
    return {
        "variable": (
            {"environment": {"env": [{"name": "A", "secret": "hf", "key": "t"}]}},
            f"secret hf in {namespace}",
        ),
        "config map": ({"podPatch": {"volumes": [config]}}, f"config map conf in {namespace}"),
        "claim": ({"podPatch": {"volumes": [claim, optional]}}, f"claim data in {namespace}"),
        "projected": ({"podPatch": {"volumes": [mixed]}}, f"secret part in {namespace}"),
        "all of a map": ({"podPatch": from_all}, f"config map all in {namespace}"),
    }


@pytest.mark.parametrize("what", part_of(missing_objects(""), 3))
def test_missing_object_blocks_only_replacements(place: Place, running: str, what: str) -> None:
    changes, title = missing_objects(place.namespace)[what]
    said = refused(place, training(**changes))
    assert f"training/train: there is no {title}, and its running pods would be ended" in said
    fresh = training("fresh", **changes)
    note = f"there is no {title}, which training/fresh will wait for"
    assert place.plan(fresh).value["notes"] == [note]
    assert f"note: {note}\n" in place.gpuctl("diff", "-f", place.file(fresh), code=1).err
    kind, name = title.split(" in ")[0].rsplit(" ", 1)
    kind = {"secret": "Secret", "config map": "ConfigMap", "claim": "PersistentVolumeClaim"}[kind]
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "finalizers": ["example.com/x"]},
    }
    if kind == "PersistentVolumeClaim":
        body["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    place.create(body)
    assert place.plan(fresh).value["notes"] == []
    place.api.call("DELETE", place.path(kind, name))
    assert place.plan(fresh).value["notes"] == [f"the {title} is being deleted, which training/fresh will wait for"]
    place.patch(kind, name, {"metadata": {"finalizers": None}})


@pytest.mark.slow
def test_missing_secret_is_noted_only_for_jobs_that_use_it(place: Place) -> None:
    """Jobs that differ only in environment variables share one admission check."""
    named = training("a", environment={"env": [{"name": "A", "secret": "hf", "key": "t"}]})
    assert place.plan(named, training("b")).value["notes"] == [
        f"there is no secret hf in {place.namespace}, which training/a will wait for"
    ]


@pytest.mark.slow
def test_contents_of_secrets_are_not_read(place: Place, proxy: Proxy) -> None:
    """One metadata request per object for any number of jobs; its values are not read."""
    text = "dG9wLXNlY3JldC12YWx1ZQ=="
    place.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"}, "data": {"t": text}})
    variables = {"environment": {"env": [{"name": "A", "secret": "hf", "key": "t"}]}}
    place.apply(*(training(f"a-{number}", **variables) for number in range(5)))
    reads = [record for record in proxy.records if record.request.path.endswith("/secrets/hf")]
    assert [record.request.method for record in reads] == ["GET"]
    assert "PartialObjectMetadata" in dict(reads[0].request.headers)["Accept"]


def test_fields_rejected_by_the_server_are_refused(place: Place, running: str) -> None:
    # The operator needs a feature gate that this server has disabled: only the cluster can reject it.
    compared = [{"key": "example.com/age", "operator": "Gt", "value": "7"}]
    said = refused(place, training(podPatch={"tolerations": compared}, **V2))
    assert "job.batch/train" in said
    assert "spec.template.spec.tolerations" in said
    assert "Gt" in said
    assert "{" not in said


def test_invalid_workload_is_one_error(place: Place) -> None:
    """Its pods are invalid for the same reason, which is not repeated."""
    said = refused(place, training(podPatch={"securityContext": {"sysctls": [{"name": "no sysctl", "value": "1"}]}}))
    assert "spec.template.spec.securityContext.sysctls[0].name" in said
    assert said.count("error: ") == 1


@pytest.mark.slow
def test_node_port_in_use_is_refused(place: Place, running: str) -> None:
    number = place.node_port()
    port = {"ports": [{"port": 80, "nodePort": number}], "type": "NodePort"}
    place.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "theirs"}, "spec": port})
    said = refused(place, inference(service={"nodePort": number}))
    assert "service/svc-serve" in said
    assert f"{number}: provided port is already allocated" in said


@pytest.mark.slow
def test_kind_that_is_not_installed_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RESOURCES, "JobSet", RESOURCES["JobSet"]._replace(group="not-installed.x-k8s.io"))
    place.platform("training: {backend: jobset}")
    said = refused(place, training(resources={"nodes": 2}))
    assert "jobset.not-installed.x-k8s.io/train" in said
    assert "this kind is not installed in the cluster" in said


@pytest.mark.slow
def test_apply_lists_all_confirmations_at_once(place: Place) -> None:
    place.apply(training("one"), training("two"), inference())
    place.running("one", "two", "serve")
    before = place.records()
    changed = [training("one", **V2), training("two", **V2), inference(**V2)]
    outcome = place.apply(*changed, code=2)
    *questions, error, hint = outcome.err.splitlines()
    assert sorted(line.partition(":")[0] for line in questions) == [
        f"replaces inference/serve in {place.namespace}",
        f"replaces training/one in {place.namespace}",
        f"replaces training/two in {place.namespace}",
    ]
    assert error == "error: cannot ask for confirmation: use --yes"
    assert hint == "  = nothing was changed"
    assert outcome.out == ""
    value = place.apply(*changed, flags=("-o", "json"), code=2).value
    assert {step["action"] for step in value["steps"]} == {"unchanged", "replace"}
    assert place.records() == before


@pytest.mark.slow
def test_apply_asks_on_a_terminal(place: Place, running: str) -> None:
    file = place.file(training(**V2))
    arguments = [sys.executable, "-m", "gpuctl", "apply", "-f", file, "-n", place.namespace]
    script = (
        "import pty, sys, os\n"
        "def read(fd):\n"
        "    data = os.read(fd, 1024)\n"
        "    if b'[y/N]' in data: os.write(fd, b'n\\n')\n"
        "    return data\n"
        "status = pty.spawn(sys.argv[1:], read)\n"
        "sys.exit(os.waitstatus_to_exitcode(status))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert result.returncode == 1, result.stdout
    assert "replaces training/train" in result.stdout
    assert "Continue? [y/N]: n" in result.stdout
    assert "nothing was changed" in result.stdout


def test_create_refuses_existing_jobs_before_creating_any(place: Place) -> None:
    place.gpuctl("create", "-f", place.file(training("one")))
    before = place.records()
    both = place.file(training("one"), training("two"), compute())
    refused = place.gpuctl("create", "-f", both, code=1)
    assert f"job.batch/one in {place.namespace} exists already; `gpuctl apply` changes what exists" in refused.err
    assert place.records() == before
    place.gpuctl("create", "-f", place.file(training("two"), compute()))
    assert place.names() == {"Job/one", "Job/two", "Deployment/comp", "Service/svc-comp"}


@pytest.mark.slow
def test_create_refuses_a_foreign_service_of_the_name(place: Place) -> None:
    port = {"ports": [{"port": 80}]}
    place.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc-comp"}, "spec": port})
    outcome = place.gpuctl("create", "-f", place.file(compute()), code=1)
    assert f"service/svc-comp in {place.namespace}" in outcome.err
    assert place.names() == {"Service/svc-comp"}


@pytest.mark.slow
def test_namespace_named_by_a_document_is_created(place: Place) -> None:
    name = f"{place.namespace[-50:].strip('-')}-new"
    document = training(job={"namespace": name})
    try:
        preview = place.apply(document, flags=("--dry-run=server",))
        assert f"create    namespace/{name}" in preview.out
        place.apply(document, flags=("--wait",))
        assert "Running" in place.plane.kubectl("get", "pods", "-n", name)
    finally:
        place.plane.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


@pytest.mark.slow
def test_namespace_of_the_command_line_must_exist(place: Place) -> None:
    """A mistyped name would create the namespace and run jobs there without a quota."""
    typo = place.namespace[:-1] + "x" + place.namespace[-1:]
    file, quota_file = place.file(training("a"), inference("b")), place.directory / "quota.yaml"
    expected = (
        f"error: there is no namespace {typo}, and no document names it: did you mean `{place.namespace}`? "
        "--create-namespace creates it, and so does `job.namespace` or a quota in the documents\n"
    )
    commands: dict[tuple[str, ...], int] = {
        ("apply",): 1,
        ("apply", "--yes"): 1,
        ("create",): 1,
        ("apply", "--dry-run=server"): 1,
        ("apply", "--dry-run=client"): 1,
        ("create", "--dry-run=client"): 1,
        ("diff",): 2,
    }
    for (command, *flags), code in commands.items():
        assert expected in place.anywhere(command, "-f", file, "-n", typo, *flags, code=code).err
        assert place.api.request("GET", f"/api/v1/namespaces/{typo}")[0] == 404
    value = place.anywhere("apply", "-f", file, "-n", typo, "-o", "json", code=1).value
    assert value["error"] == expected[len("error: ") : -1]
    quota = {"kind": "quota", "version": "v0.1", "quota": {"name": "q"}, "users": {typo: {"cpu": 10}}}
    quota_file.write_text(json.dumps(quota))
    try:
        told = place.anywhere("diff", "-f", file, "-f", str(quota_file), "-n", typo, code=1)
        assert f"create    namespace/{typo}  (named by a document of kind quota)" in told.out
        asked = place.anywhere("diff", "-f", file, "-n", typo, "--create-namespace", code=1)
        assert f"create    namespace/{typo}\n" in asked.out
        place.anywhere("apply", "-f", file, "-n", typo, "--create-namespace")
        assert place.api.request("GET", f"/apis/batch/v1/namespaces/{typo}/jobs/a")[0] == 200
        assert "unchanged job.batch/a" in place.anywhere("apply", "-f", file, "-n", typo).out
    finally:
        place.plane.kubectl("delete", "namespace", typo, "--ignore-not-found", "--wait=false")


@pytest.mark.slow
def test_namespace_of_a_set_must_exist(place: Place) -> None:
    """This holds even if all documents of the set name another namespace."""
    home = f"{place.namespace[-50:].strip('-')}-home"
    arguments = ("-f", place.file(training("a", job={"namespace": place.namespace})), "-n", home, "--set", "jobs")
    for flags, code in ((("apply",), 1), (("apply", "--dry-run=client"), 1), (("diff",), 2)):
        refused = place.anywhere(*flags, *arguments, code=code)
        assert f"error: there is no namespace {home}, and no document names it: " in refused.err
    assert not place.exists("Job", "a")
    try:
        line = f"namespace/{home}  (holds the Secret of the set)"
        assert f"create    {line}" in place.anywhere("diff", *arguments, "--create-namespace", code=1).out
        assert f"created   {line}" in place.anywhere("apply", *arguments, "--create-namespace").out
        assert place.exists("Job", "a")
        assert place.api.request("GET", f"/api/v1/namespaces/{home}/secrets/jobs")[0] == 200
        assert "home" not in place.anywhere("apply", *arguments).out
    finally:
        place.plane.kubectl("delete", "namespace", home, "--ignore-not-found", "--wait=false")


@pytest.mark.slow
def test_namespace_of_the_context_must_exist(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads(place.plane.kubeconfig().read_text())
    config["contexts"][0]["context"]["namespace"] = "nobody-made-this"
    own = place.directory / "kubeconfig"
    own.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(own))
    refused = place.anywhere("apply", "-f", place.file(training("a")), code=1)
    assert "there is no namespace nobody-made-this, and no document names it" in refused.err
    assert "did you mean" not in refused.err


def test_terminating_namespace_is_refused(place: Place) -> None:
    name = f"{place.namespace[-50:].strip('-')}-old"
    plane: ControlPlane = place.plane
    plane.kubectl("create", "namespace", name)
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    plane.kubectl("create", "-n", name, "-f", "-", input=json.dumps(held))
    plane.kubectl("delete", "namespace", name, "--wait=false")
    try:
        said = place.apply(training(job={"namespace": name}), code=1).err
        assert f"namespace {name} is being deleted: wait until it is gone" in said
    finally:
        plane.kubectl("patch", "configmap", "held", "-n", name, "-p", '{"metadata":{"finalizers":null}}')


@pytest.mark.slow
def test_apply_wait_reports_late_and_failed_jobs(place: Place) -> None:
    started = place.apply(training(), inference(), flags=("--wait",))
    assert "created" in started.out
    place.until(lambda: place.get("Job", "train")["status"].get("ready") == 1, "the Job to know it")
    never = training("never", resources={"gpu": 65})
    late = place.apply(never, flags=("--wait", "--timeout=1s"), code=1)
    assert f"job.batch/never in {place.namespace} did not start within 1 s" in late.err
    assert place.exists("Job", "never")
    failing = training("failing", job={"annotations": {"gpuctl.test/outcome": "fail"}})
    outcome = place.apply(failing, flags=("--wait", "-o", "json"), code=1)
    assert "job.batch/failing" in outcome.value["error"]
    assert outcome.actions == {"Job/failing": "create"}


def test_stuck_finalizer_is_named_and_recover_completes(place: Place) -> None:
    place.apply(training(), compute())
    place.running("train", "comp")
    place.patch("Job", "train", {"metadata": {"finalizers": ["example.com/held"]}})
    uid = place.uid("Job", "train")
    told = place.gpuctl("diff", "-f", place.file(training(**V2)), code=1).out
    assert "its deletion waits for the finalizer example.com/held" in told.splitlines()[0]
    late = place.apply(training(**V2), compute(**V2), flags=("--yes", "--timeout=2s"), code=1)
    (line,) = [line for line in late.out.splitlines() if "job.batch/train" in line]
    assert line.startswith(f"failed    job.batch/train -n {place.namespace}  (still exists after 2 s: ")
    assert "blocked by finalizer example.com/held" in line
    assert place.uid("Job", "train") == uid
    place.patch("Job", "train", {"metadata": {"finalizers": None}})
    recovered = place.gpuctl("recover", "--yes")
    assert f"job.batch/train in {place.namespace}: the new object was created" in recovered.out
    assert place.uid("Job", "train") != uid
    assert image("v2")["image"] in str(place.get("Job", "train"))
    assert not place.objects(("Secret", "Lease"))
    assert "Nothing to recover." in place.gpuctl("recover").err
    assert set(place.plan(training(**V2), compute(**V2)).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_next_apply_removes_the_journal(place: Place) -> None:
    place.apply(training())
    place.patch("Job", "train", {"metadata": {"finalizers": ["example.com/held"]}})
    place.apply(training(**V2), flags=("--yes", "--timeout=1s"), code=1)
    place.patch("Job", "train", {"metadata": {"finalizers": None}})
    outcome = place.apply(training(**V2))
    assert outcome.err == "note: an interrupted run left its journal, which is removed\n"
    assert "created   job.batch/train" in outcome.out
    assert not place.objects(("Secret", "Lease"))


@pytest.mark.slow
def test_queue_without_kueue_is_noted(place: Place) -> None:
    """The note names queued jobs with any number of nodes, and no job without a queue."""
    place.platform("training: {queue: {drill: research}}")
    told = place.apply(training("one"), training("two", resources={"nodes": 2}), inference(), flags=("--dry-run",))
    (note,) = (line for line in told.err.splitlines() if "has no Kueue" in line)
    assert "so the queue of training/one, training/two has no effect" in note


@pytest.mark.slow
def test_server_rejects_one_node_port_for_two_port_numbers(place: Place) -> None:
    """`validate` reports this as GPU218 and GPU418. The API server rejects it even if the protocols differ."""
    number = place.node_port()

    def taken(name: str, *ports: tuple[int, str]) -> str:
        entries = [
            {"name": f"p{index}", "port": port, "protocol": protocol, "nodePort": number}
            for index, (port, protocol) in enumerate(ports)
        ]
        body = {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": entries}}
        try:
            place.create({"apiVersion": "v1", "kind": "Service", **body})
        except RuntimeError as error:
            return str(error)
        return ""

    assert "provided port is already allocated" in taken("one", (80, "TCP"), (53, "UDP"))
    assert taken("two", (53, "TCP"), (53, "UDP")) == ""
    assert "provided port is already allocated" in taken("three", (54, "UDP"))


@pytest.mark.slow
def test_large_document_is_stored_compressed(place: Place) -> None:
    """A document larger than an annotation is applied, compared and changed like any other."""
    large = {f"V{number}": "x" * 1000 for number in range(300)}
    place.apply(training("large", environment={**image("v1"), "env": large}))
    stored = place.get("Job", "large")["metadata"]["annotations"][f"{DOMAIN}/document"]
    assert stored.startswith("bz2:")
    assert place.apply(training("large", environment={**image("v1"), "env": large})).out.startswith("unchanged")
    del large["V299"]
    place.apply(training("large", environment={**image("v2"), "env": large}), flags=("--yes",))
    names = [item["name"] for item in place.get("Job", "large")["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert "V298" in names
    assert "V299" not in names
