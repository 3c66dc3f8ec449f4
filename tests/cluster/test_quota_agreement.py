"""gpuctl's quota prediction and the API server's decision on the same objects, created one by one: they always agree."""

from __future__ import annotations

import copy
import itertools
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from fault_tools import world
from gpuctl.capacity.admission.quota_charges import (
    ChargedObjects,
    charged_objects,
    charges,
    parse_exceeded,
    parse_unspecified,
    shortfalls,
    unspecified,
)
from gpuctl.capacity.snapshot.pod_requests import Amounts, amounts
from gpuctl.kube.api_errors import is_quota_refusal
from gpuctl.objects.api_resources import RESOURCES
from gpuctl.objects.pod_templates import replicas
from properties.scale import scaled

Object = dict[str, Any]

SEEDS = range(scaled(64))
OVERHEAD = {"cpu": "250m", "memory": "120Mi"}
POD_KEYS = (
    "pods",
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.nvidia.com/gpu",
    "requests.example.com/fpga",
    "hugepages-2Mi",
    "requests.hugepages-2Mi",
)
# For pods in a quota with a scope, the API server accepts only these keys, and even fewer with BestEffort.
SCOPED_KEYS = (
    *(key for key in POD_KEYS if "ephemeral" not in key and "hugepages" not in key),
    *("count/services", "count/configmaps"),
)
BEST_EFFORT_KEYS = ("pods", "count/pods", "requests.nvidia.com/gpu")
OBJECT_KEYS = (
    "services",
    "services.nodeports",
    "services.loadbalancers",
    "configmaps",
    "secrets",
    "persistentvolumeclaims",
    "requests.storage",
    "gold.storageclass.storage.k8s.io/requests.storage",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
    "count/services",
    "count/configmaps",
    "count/secrets",
    "count/persistentvolumeclaims",
    "count/jobs.batch",
    "count/deployments.apps",
    "count/statefulsets.apps",
    "count/horizontalpodautoscalers.autoscaling",
)
SCOPES: tuple[Object, ...] = (
    {"scopes": ["Terminating"]},
    {"scopes": ["NotTerminating"]},
    {"scopes": ["BestEffort"]},
    {"scopes": ["NotBestEffort"]},
    {"scopes": ["NotBestEffort", "Terminating"]},
    {"scopes": ["PriorityClass"]},
    {"scopes": ["CrossNamespacePodAffinity"]},
    *(
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", **expression}]}}
        for expression in (
            {"operator": "In", "values": ["quota-high"]},
            {"operator": "In", "values": ["quota-high", "quota-low"]},
            {"operator": "NotIn", "values": ["quota-high"]},
            {"operator": "Exists"},
            {"operator": "DoesNotExist"},
        )
    ),
    {
        "scopes": ["NotTerminating"],
        "scopeSelector": {
            "matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["quota-low"]},
                {"scopeName": "NotBestEffort", "operator": "Exists"},
            ]
        },
    },
)

# The tests create no leases: a new limit on them triggers a recount, or shows that the server's cache is up to date.
LEASES = "count/leases.coordination.k8s.io"
ROOT = ChargedObjects({"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}})


class Api(world.Api):
    """The API server; a failed request prints its body."""

    def done(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send a request that must succeed."""
        status, answer = self.request(method, path, body)
        assert status < 300, f"{method} {path}: {status} {answer.get('message')}\n{json.dumps(body)}"
        return answer


def _path(obj: Object, namespace: str, name: str | None = None) -> str:
    return RESOURCES[obj["kind"]].path(namespace, name)


def _wait(condition: Callable[[], Any], what: Callable[[], str], timeout: float = 120) -> Any:
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


class Random(random.Random):
    """Random objects and quotas."""

    def named(self, kind: str, api_version: str = "v1", **rest: Any) -> Object:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": f"x{self.getrandbits(64):x}"}, **rest}

    def maybe(self, probability: float) -> bool:
        return self.random() < probability

    def container(self, name: str, **rest: Any) -> Object:
        requests: Object = {}
        limits: Object = {}
        for resource, pairs in {
            "cpu": (("100m", "1"), ("0.25", "250m"), (".1", "2"), (1, 2), ("1500u", "1e-1"), ("2", "2"), ("0", "0")),
            "memory": (("64Mi", "1Gi"), ("1e7", "128M"), ("1.5Gi", "2Gi"), ("1000000500m", "1G"), ("1Gi", "1Gi")),
            "ephemeral-storage": (("1Gi", "2Gi"), ("5k", "5M")),
        }.items():
            smaller, larger = self.choice(pairs)
            if self.maybe(self.complete if resource != "ephemeral-storage" else 0.3):
                requests[resource] = smaller
            if self.maybe(self.complete if resource != "ephemeral-storage" else 0.3):
                limits[resource] = larger
        if self.maybe(0.4):
            limits["nvidia.com/gpu"] = self.choice(("1", 2, "8"))
        if self.maybe(0.2):
            requests["example.com/fpga"] = limits["example.com/fpga"] = "1"
        if self.maybe(0.2) and {"cpu", "memory"} & {*requests, *limits}:
            limits["hugepages-2Mi"] = self.choice(("4Mi", "64Mi"))
        resources = {"requests": requests, "limits": limits}
        if self.maybe((1 - self.complete) / 2):
            resources = {}
        return {
            "name": name,
            "image": "x",
            "resources": {key: value for key, value in resources.items() if value},
            **rest,
        }

    def pod(self) -> Object:
        spec: Object = {"schedulerName": "nobody", "restartPolicy": "Never"}
        spec["containers"] = [self.container(f"c{number}") for number in range(self.randint(1, 2))]
        if self.maybe(0.5):
            spec["initContainers"] = [
                self.container(f"i{number}", **({"restartPolicy": "Always"} if self.maybe(0.5) else {}))
                for number in range(self.randint(1, 3))
            ]
        if self.maybe((1 - self.complete) / 2):
            for container in _containers(spec):
                container["resources"] = {}
        if self.maybe(0.25):
            for container in _containers(spec):
                # The server rounds the pod's sum and its parts separately, and rejects the pod if they differ.
                if container["resources"].get("requests", {}).get("cpu") == "1500u":
                    container["resources"]["requests"]["cpu"] = "2m"
            spec["resources"] = self.pod_resources(spec)
        if self.maybe(0.2):
            spec |= {"runtimeClassName": "quota-heavy", "overhead": OVERHEAD}
        if self.maybe(0.5):
            spec["priorityClassName"] = self.choice(("quota-high", "quota-low"))
        if self.maybe(0.4):
            spec["activeDeadlineSeconds"] = self.choice((1, 3600))
        if self.maybe(0.3):
            spec["affinity"] = self.affinity()
        return self.named("Pod", spec=spec)

    def pod_resources(self, spec: Object) -> Object:
        """Return pod-level resources; they may not be smaller than the sum over the containers."""
        result: Object = {}
        if self.maybe(0.15):
            return result
        huge = any("hugepages-2Mi" in container["resources"].get("limits", {}) for container in _containers(spec))
        for field in self.choice((("requests",), ("limits",), ("requests", "limits"))):
            result[field] = {}
            if self.maybe(0.7):
                result[field]["cpu"] = "16"
            if self.maybe(0.7):
                result[field]["memory"] = "20Gi"
        if huge and self.maybe(0.5):
            result.setdefault("limits", {})["hugepages-2Mi"] = "1Gi"
        return {field: resources for field, resources in result.items() if resources}

    def affinity(self) -> Object:
        term: Object = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
        term |= self.choice(({}, {"namespaces": ["default"]}, {"namespaceSelector": {}}, {"namespaces": []}))
        side = self.choice(("podAffinity", "podAntiAffinity"))
        if self.maybe(0.5):
            return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return {side: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}

    def service(self) -> Object:
        spec: Object = {"ports": [{"name": f"p{port}", "port": port} for port in range(80, 80 + self.randint(1, 3))]}
        kind = self.choice(("", "ClusterIP", "NodePort", "NodePort", "LoadBalancer", "LoadBalancer"))
        if kind:
            spec["type"] = kind
        if kind == "LoadBalancer" and self.maybe(0.6):
            spec["allocateLoadBalancerNodePorts"] = False
            if self.node_port:
                spec["ports"][0]["nodePort"], self.node_port = self.node_port, 0
        return self.named("Service", spec=spec)

    def claim(self) -> Object:
        size = self.choice(("1Gi", "1.5Gi", "10M", "1500m"))
        spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        result = self.named("PersistentVolumeClaim", spec=spec)
        if self.maybe(0.6):
            spec["storageClassName"] = self.choice(("gold", "silver", ""))
        elif self.maybe(0.5):
            result["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "gold"}
        return result

    def other(self) -> Object:
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
        }
        always = copy.deepcopy(template)
        always["spec"]["restartPolicy"] = "Always"
        workload: Object = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": always}
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
        return self.choice(
            (
                self.named("ConfigMap"),
                self.named("Secret"),
                self.named("Job", "batch/v1", spec={"suspend": True, "template": template}),
                self.named("Deployment", "apps/v1", spec=workload),
                self.named("StatefulSet", "apps/v1", spec={**workload, "serviceName": "x"}),
                self.named(
                    "HorizontalPodAutoscaler", "autoscaling/v2", spec={"maxReplicas": 3, "scaleTargetRef": target}
                ),
            )
        )

    def objects(self, most: int) -> list[Object]:
        makers = self.choices((self.pod, self.service, self.claim, self.other), (6, 2, 1, 2), k=self.randint(1, most))
        return [make() for make in makers]

    complete = 0.6
    """Probability that a container sets a request, and a limit, of CPU and memory."""

    node_port = 0
    """A free node port for one Service; 0 if none is reserved."""


def _containers(spec: Object) -> list[Object]:
    return [*spec["containers"], *spec.get("initContainers", [])]


class Case(NamedTuple):
    """A case: ``live`` objects exist, ``gone`` of them are deleted, ``added`` are created; ``quotas`` hold from the
    start.
    """

    live: list[Object]
    gone: list[Object]
    added: list[ChargedObjects]
    quotas: list[Object]


def _case(seed: int) -> Case:
    choose = Random(seed)
    choose.complete = choose.choice((0.6, 1))
    # The server reserves the first 86 node ports for explicit requests (KEP-3668).
    choose.node_port = 30000 + seed if seed < 86 else 0
    live = choose.objects(6)
    for obj in live:
        if obj["kind"] == "Pod" and choose.maybe(0.25):
            obj["status"] = {"phase": choose.choice(("Succeeded", "Failed"))}
    gone = [obj for obj in live if choose.maybe(0.4)]
    added = [
        ChargedObjects(obj, choose.choice((1, 1, 2, 3)) if obj["kind"] == "Pod" else 1) for obj in choose.objects(6)
    ]
    for obj in live:
        if obj["kind"] == "Service" and obj not in gone and choose.maybe(0.6):
            changed = copy.deepcopy(obj)
            changed["spec"]["type"] = choose.choice(("ClusterIP", "NodePort", "NodePort"))
            changed["spec"].pop("allocateLoadBalancerNodePorts", None)
            changed["spec"]["ports"] = [{"name": f"q{port}", "port": port} for port in range(90, 92)]
            added.append(ChargedObjects(changed, before=obj))
    choose.shuffle(added)
    quotas = [_quota(choose, live, gone, added) for _ in range(choose.choice((1, 1, 2)))]
    return Case(live, gone, added, quotas)


def _quota(choose: Random, live: list[Object], gone: list[Object], added: list[ChargedObjects]) -> Object:
    """Return a quota with limits close to what the objects need: exact, slightly less, or more."""
    scopes = choose.choice(SCOPES) if choose.maybe(0.5) else {}
    if "BestEffort" in scopes.get("scopes", ()):
        keys = BEST_EFFORT_KEYS
    else:
        keys = SCOPED_KEYS if scopes else (*POD_KEYS, *OBJECT_KEYS)
    quota = choose.named("ResourceQuota", spec={**scopes, "hard": {}})
    keys = tuple(choose.sample(keys, choose.randint(1, len(keys) // 2 + 1)))
    quota["spec"]["hard"] = dict.fromkeys(keys, "0")
    if choose.maybe(0.9):
        # Refusals because of unspecified requests would hide nearly all other refusals.
        open_ = {item.resource for item in unspecified([quota], added)}
        keys = tuple(key for key in keys if key not in open_) or ("count/pods",)
    # Choose limits near the predicted sums; random ones would rarely be close.
    quota["spec"]["hard"] = dict.fromkeys(keys, "0")
    raised = {item.resource for item in shortfalls([quota], added)}
    remaining = [obj for obj in live if obj not in gone]
    needed = {
        item.resource: item.needed for item in shortfalls([quota], [ROOT, *map(ChargedObjects, remaining), *added])
    }
    tight = choose.choice(sorted(needed)) if needed and choose.maybe(0.5) else None
    for key in keys:
        unit = Fraction(1, 1000) if key.endswith(("cpu", "memory")) else Fraction(1)
        if key not in raised and choose.maybe(0.5):
            # An exceeded limit refuses only objects that add to it.
            quota["spec"]["hard"][key] = "0"
            continue
        hard = needed.get(key, Fraction(0)) + (-1 if key == tight else choose.choice((0, 0, 1, 5))) * unit
        quota["spec"]["hard"][key] = f"{hard.numerator * 1000 // hard.denominator}m" if unit != 1 else str(hard)
    quota["spec"]["hard"][LEASES] = "1"
    return quota


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Iterator[Api]:
    """The API server with the classes that the pods name; deletes this module's namespaces at the end."""
    api = Api(plane)
    for name in ("quota-high", "quota-low"):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
        api.done("POST", RESOURCES["PriorityClass"].path(), body)
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "quota-heavy"}}
    runtime |= {"handler": "heavy", "overhead": {"podFixed": OVERHEAD}}
    api.done("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)
    yield api
    plane.kubectl("delete", "namespaces", "-l", "test=quota-sum", "--wait=false")
    plane.kubectl("delete", "priorityclasses/quota-high", "priorityclasses/quota-low", "runtimeclasses/quota-heavy")


def _make_namespace(api: Api, name: str) -> None:
    metadata = {"name": name, "labels": {"test": "quota-sum"}}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    if api.request("POST", "/api/v1/namespaces", body)[0] == 409:
        # Delete the namespace of a failed first attempt.
        path = f"/api/v1/namespaces/{name}"
        api.request("DELETE", path)
        _wait(lambda: api.request("GET", path)[0] == 404, lambda: f"namespace {name} still exists")
        api.done("POST", "/api/v1/namespaces", body)
    # A controller creates this ConfigMap in every namespace, and quotas count it.
    path = RESOURCES["ConfigMap"].path(name, "kube-root-ca.crt")
    _wait(lambda: api.request("GET", path)[0] == 200, lambda: "no kube-root-ca.crt")


def _quotas(api: Api, namespace: str, names: Iterable[str]) -> list[Object]:
    """Return the quotas when the controller has counted all their keys; else an empty list.

    Before the controller copies a new limit to the status, its counts may miss recent objects.
    """
    found = [api.done("GET", RESOURCES["ResourceQuota"].path(namespace, name)) for name in names]
    return found if all(map(_is_counted, found)) else []


def _is_counted(quota: Object) -> bool:
    hard, status = quota["spec"]["hard"], quota["status"]
    return amounts(hard) == amounts(status.get("hard", {})) and hard.keys() == status.get("used", {}).keys()


def _used(quotas: list[Object]) -> dict[str, Amounts]:
    return {quota["metadata"]["name"]: amounts(quota["status"]["used"]) for quota in quotas}


def _difference(server: dict[str, Amounts], ours: dict[str, Amounts]) -> str:
    parts = [
        f"{name} {key}: {amount} in use, predicted {ours[name].get(key)}"
        for name, used in server.items()
        for key, amount in used.items()
        if ours[name].get(key) != amount
    ]
    return "; ".join(parts) or f"not counted: {ours.keys() - server.keys()}"


def _expected_use(quotas: list[Object], freed: list[ChargedObjects], added: list[ChargedObjects]) -> dict[str, Amounts]:
    """Return the predicted use per quota: the shortfalls against limits of zero."""
    result = _used(quotas)
    for usages, sign in ((freed, -1), (added, 1)):
        for quota in quotas:
            name, spec = quota["metadata"]["name"], quota["spec"]
            nothing = {"metadata": {"name": name}, "spec": {**spec, "hard": dict.fromkeys(spec["hard"], "0")}}
            for item in shortfalls([nothing], usages):
                result[name][item.resource] += sign * item.needed
    return result


def _wait_for_use(api: Api, namespace: str, expected: dict[str, Amounts], added: str = "") -> list[Object]:
    """Wait until the quotas report the expected use, and return them; a failure message contains ``added``.

    The controller counts the objects in its cache. It may miss a recent create or delete for minutes, unless a changed
    limit triggers a recount.
    """
    end = time.monotonic() + 120
    for attempt in itertools.count():
        quotas = _quotas(api, namespace, expected)
        if quotas and _used(quotas) == expected:
            return quotas
        if attempt % 10 == 9:
            for name in expected:
                path = RESOURCES["ResourceQuota"].path(namespace, name)
                api.done("PATCH", path, {"spec": {"hard": {LEASES: str(attempt)}}})
        assert time.monotonic() < end, f"{_difference(_used(quotas), expected)}\n{added}"
        time.sleep(0.05)
    raise AssertionError("unreachable")


def _settle(api: Api, namespace: str) -> None:
    """Wait until the API server's quota cache is up to date: a quota created now is enforced."""
    body = {"kind": "ResourceQuota", "metadata": {"name": "sentinel"}, "spec": {"hard": {LEASES: "0"}}}
    api.done("POST", RESOURCES["ResourceQuota"].path(namespace), body)
    path = f"{RESOURCES['Lease'].path(namespace)}?dryRun=All"
    lease = {"kind": "Lease", "metadata": {"name": "x"}}
    _wait(
        lambda: "exceeded quota: sentinel" in api.request("POST", path, lease)[1].get("message", ""),
        lambda: "the quota is not enforced",
    )


def _create_live(api: Api, namespace: str, live: list[Object]) -> None:
    for obj in live:
        api.done("POST", _path(obj, namespace), obj)
        if "status" in obj:
            path = f"{_path(obj, namespace, obj['metadata']['name'])}/status"
            api.done("PATCH", path, {"status": obj["status"]})


def _requests(namespace: str, added: list[ChargedObjects]) -> Iterator[tuple[ChargedObjects, str, str, Object]]:
    """Yield one request for each object."""
    for usage in added:
        if usage.before is not None:
            name = usage.object["metadata"]["name"]
            patch = {"spec": {"allocateLoadBalancerNodePorts": None, **usage.object["spec"]}}
            yield usage, "PATCH", _path(usage.object, namespace, name), patch
            continue
        for number in range(usage.number):
            body = copy.deepcopy(usage.object)
            body["metadata"]["name"] += f"-{number}"
            yield usage._replace(number=1), "POST", _path(body, namespace), body


def _verdict(api: Api, seed: int) -> bool:
    """Run one case; return True if the objects fit. Fail if the server and the prediction disagree."""
    case, namespace = _case(seed), f"quota-sum-{seed}"
    _make_namespace(api, namespace)
    _create_live(api, namespace, case.live)
    for quota in case.quotas:
        api.done("POST", _path(quota, namespace), quota)
    live = {
        obj["metadata"]["name"]: api.done("GET", _path(obj, namespace, obj["metadata"]["name"])) for obj in case.live
    }
    blank = [{**quota, "status": {"used": dict.fromkeys(quota["spec"]["hard"], "0")}} for quota in case.quotas]
    expected = _expected_use(blank, [], [ROOT, *map(ChargedObjects, live.values())])
    quotas = _wait_for_use(api, namespace, expected)

    freed = [ChargedObjects(live[obj["metadata"]["name"]]) for obj in case.gone]
    missing = shortfalls(quotas, case.added, freed)
    fits = not missing and not unspecified(quotas, case.added)

    for obj in case.gone:
        api.done("DELETE", _path(obj, namespace, obj["metadata"]["name"]))
    _wait_for_use(api, namespace, _expected_use(quotas, freed, []))
    _settle(api, namespace)
    made: list[ChargedObjects] = []
    for usage, method, path, body in _requests(namespace, case.added):
        status, answer = api.request(method, path, body)
        made.append(usage)
        if status == 403:
            _check_refusal(answer["message"], quotas, made, freed)
            assert not fits, f"predicted to fit, refused by the server: {answer['message']}"
            return False
        assert status < 300, f"{status} {answer['message']}\n{json.dumps(body)}"
        assert not shortfalls(quotas, made, freed), "accepted by the server, predicted not to fit"
    assert fits, (
        f"accepted by the server, predicted shortfalls: {[str(item) for item in missing]} {unspecified(quotas, case.added)}"
    )
    if not any(usage.before for usage in case.added):
        # Reductions by an update are counted later, and the prediction does not cover them.
        _wait_for_use(api, namespace, _expected_use(quotas, freed, case.added))
    return True


def _check_refusal(message: str, quotas: list[Object], made: list[ChargedObjects], freed: list[ChargedObjects]) -> None:
    """Check that the server's message has the predicted numbers for all objects up to the refused one."""
    open_ = parse_unspecified(message)
    if open_ is not None:
        assert not is_quota_refusal(message)
        ours = unspecified(quotas, made[-1:])
        assert set(open_) <= set(ours), f"{message}; predicted {[str(item) for item in ours]}"
        return
    exceeded = parse_exceeded(message)
    assert exceeded, message
    assert is_quota_refusal(message)
    ours_by_key = {(item.quota, item.resource): item for item in shortfalls(quotas, made, freed)}
    for item in exceeded:
        mine = ours_by_key[item.quota, item.resource]
        assert (item.total, item.hard) == (mine.total, mine.hard), f"{message}; predicted {mine}"


def test_quota_verdict_agrees_with_the_server(api: Api) -> None:
    def attempt(seed: int) -> bool | str:
        try:
            return _verdict(api, seed)
        except Exception as error:
            return f"seed {seed}: {type(error).__name__}: {error}"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(attempt, SEEDS))
    failures = [result for result in results if isinstance(result, str)]
    assert not failures, "\n".join(failures)
    # Enough cases must fit, and enough must not.
    assert min(results.count(True), results.count(False)) >= len(SEEDS) // 5


@pytest.mark.slow
def test_predicted_charges_match_the_server_for_every_object(api: Api) -> None:
    """With one quota per scope, the server's use after each object, and its refusals, equal the prediction."""
    demanding = [{"spec": {**scopes, "hard": _generous(scopes)}} for scopes in ({}, *SCOPES)]
    relaxed = copy.deepcopy(demanding)
    for quota in relaxed:
        # With these limits, pods whose containers set no requests would be refused.
        quota["spec"]["hard"] = {
            key: amount for key, amount in quota["spec"]["hard"].items() if not key.endswith(("cpu", "memory"))
        }
    with ThreadPoolExecutor(2) as pool:
        (taken, all_), (also, _) = pool.map(lambda case: _count_all(api, *case), enumerate((demanding, relaxed)))
    assert also == all_
    assert all_ // 2 < taken < all_ - 10


def _all_kinds(number: int) -> list[Object]:
    choose = Random(0)
    choose.node_port = 30000 + len(SEEDS) + number
    objects = [*_special_pods(choose), *(choose.service() for _ in range(12)), *(choose.claim() for _ in range(8))]
    return [*objects, *(choose.other() for _ in range(20)), *(choose.pod() for _ in range(40))]


def _generous(scopes: Object) -> Object:
    if "BestEffort" in scopes.get("scopes", ()):
        keys = BEST_EFFORT_KEYS
    else:
        keys = SCOPED_KEYS if scopes else (*POD_KEYS, *OBJECT_KEYS)
    return dict.fromkeys((*keys, LEASES), "1T")


def _special_pods(choose: Random) -> Iterator[Object]:
    """Yield pods that random generation produces too rarely."""
    requests, full = {"requests": {"cpu": "1"}}, {"limits": {"cpu": "2", "memory": "1Gi"}}
    specs: list[Object] = [
        {},
        {"containers": [requests], "resources": {}},
        {"containers": [full], "resources": {}},
        {"containers": [{}], "resources": {"limits": {"cpu": "2"}}},
        {"containers": [requests], "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}},
        {"containers": [requests, full], "resources": {"requests": {"cpu": "4"}}},
        {"containers": [{}], "initContainers": [requests]},
        {"containers": [{"limits": {"cpu": "0", "memory": "0"}}], "runtimeClassName": "quota-heavy"},
        {"containers": [{"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}], "runtimeClassName": "quota-heavy"},
        {"containers": [{"requests": {"memory": "100m"}, "limits": {"memory": "1500m"}}]},
        {"containers": [{"requests": {"cpu": "1n"}, "limits": {"cpu": "1000001u", "memory": "1e3"}}]},
        {"containers": [{"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}], "resources": {"requests": {"cpu": "2"}}},
        {"containers": [{"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}], "resources": {"limits": {"memory": "2Gi"}}},
        {"containers": [{"limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}], "initContainers": [full]},
    ]
    for spec in specs:
        pod = choose.named("Pod", spec={"schedulerName": "nobody", "containers": [{}], **spec})
        for field in ("containers", "initContainers"):
            for number, resources in enumerate(pod["spec"].get(field, [])):
                pod["spec"][field][number] = {"name": f"{field[0]}{number}", "image": "x", "resources": resources}
        if "runtimeClassName" in spec:
            pod["spec"]["overhead"] = OVERHEAD
        yield pod


def _count_all(api: Api, case: int, quotas: list[Object]) -> tuple[int, int]:
    """Create objects of all kinds in a namespace with the quotas; return the number accepted and the total."""
    namespace, objects = f"quota-sum-all-{case}", _all_kinds(case)
    _make_namespace(api, namespace)
    path = RESOURCES["ResourceQuota"].path(namespace)
    for number, quota in enumerate(quotas):
        api.done("POST", path, {"kind": "ResourceQuota", "metadata": {"name": f"q{number}"}, **quota})
    blank = [
        {"metadata": {"name": f"q{number}"}, **quota, "status": {"used": dict.fromkeys(quota["spec"]["hard"], "0")}}
        for number, quota in enumerate(quotas)
    ]
    live = _wait_for_use(api, namespace, _expected_use(blank, [], [ROOT]))
    _settle(api, namespace)
    taken = 0
    for obj in objects:
        status, answer = api.request("POST", _path(obj, namespace), obj)
        open_ = unspecified(live, [ChargedObjects(obj)])
        if status == 403:
            assert set(parse_unspecified(answer["message"]) or [None]) <= set(open_), answer["message"]
            continue
        assert status == 201, f"{answer['message']}\n{json.dumps(obj)}"
        assert not open_, f"the server accepts {json.dumps(obj)}; predicted {[str(item) for item in open_]}"
        taken += 1
        live = _wait_for_use(api, namespace, _expected_use(live, [], [ChargedObjects(obj)]), json.dumps(obj))
    return taken, len(objects)


@pytest.mark.slow
def test_predicted_charges_match_running_workloads(api: Api) -> None:
    """Controllers create the pods and other objects that :func:`charged_objects` and :func:`replicas` predict."""
    namespace = "quota-sum-workloads"
    _make_namespace(api, namespace)
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "100m", "nvidia.com/gpu": 2}}}

    def workload(kind: str, name: str, restart: str = "Always", **spec: Any) -> Object:
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"schedulerName": "nobody", "restartPolicy": restart, "containers": [container]},
        }
        body = {"template": template, **spec}
        if kind != "Job":
            body["selector"] = {"matchLabels": labels}
        return {
            "apiVersion": RESOURCES[kind].api_version,
            "kind": kind,
            "metadata": {"name": name},
            "spec": body,
        }

    objects = [
        workload("Job", "plain", "Never"),
        workload("Job", "wide", "Never", parallelism=5, completions=2),
        workload("Job", "long", "Never", parallelism=2, completions=5),
        workload("Job", "queue", "Never", parallelism=3),
        workload("Job", "many", "Never", completions=4),
        workload("Job", "paused", "Never", parallelism=7, suspend=True),
        workload("Deployment", "one"),
        workload("Deployment", "three", replicas=3),
        workload("StatefulSet", "alone", serviceName="x"),
        workload("StatefulSet", "pair", serviceName="x", replicas=2, podManagementPolicy="Parallel"),
    ]
    expected: Amounts = {}
    for usage in [usage for obj in objects for usage in charged_objects(obj)]:
        for key, amount in charges(usage.object).items():
            expected[key] = expected.get(key, Fraction(0)) + amount * usage.number
    assert expected["pods"] == sum(map(replicas, objects)) == 1 + 2 + 2 + 3 + 1 + 0 + 1 + 3 + 1 + 2
    body = {
        "kind": "ResourceQuota",
        "metadata": {"name": "all"},
        "spec": {"hard": dict.fromkeys((*expected, LEASES), "1k")},
    }
    api.done("POST", RESOURCES["ResourceQuota"].path(namespace), body)
    _wait(lambda: _quotas(api, namespace, ["all"]), lambda: "the quota is not counted")
    _settle(api, namespace)
    for obj in objects:
        api.done("POST", _path(obj, namespace), obj)
    _wait_for_use(api, namespace, {"all": expected | {LEASES: Fraction(0)}})


@pytest.mark.slow
def test_jobsets_are_counted_by_their_kind(plane: ControlPlane, api: Api) -> None:
    """A quota that the controller has not counted yet also refuses, with another message."""
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
    installed = api.request("GET", definition)[0] == 404
    if installed:
        plane.install_job_kinds()
    try:
        namespace, key = "quota-sum-jobsets", "count/jobsets.jobset.x-k8s.io"
        _make_namespace(api, namespace)
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
        job = {"parallelism": 2, "completions": 2, "template": template}
        jobset = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "x"},
            "spec": {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": job}}]},
        }
        path = RESOURCES["ResourceQuota"].path(namespace)
        quota = {"kind": "ResourceQuota", "metadata": {"name": "sets"}, "spec": {"hard": {key: "1"}}}
        api.done("POST", path, quota)
        status = _wait(lambda: api.done("GET", f"{path}/sets").get("status"), lambda: "no status")
        _settle(api, namespace)
        if "used" not in status:
            # The controller starts to count a new kind half a minute after its definition is created.
            message = api.request("POST", _path(jobset, namespace), jobset)[1]["message"]
            assert is_quota_refusal(message)
            assert parse_exceeded(message) is None
            api.done("PATCH", f"{path}/sets/status", {"status": {"used": {key: "0"}}})
        quotas = [api.done("GET", f"{path}/sets")]
        assert shortfalls(quotas, charged_objects(jobset)) == []
        _wait(lambda: api.request("POST", _path(jobset, namespace), jobset)[0] == 201, lambda: "refused")
        quotas = [api.done("GET", f"{path}/sets")]
        another = {**jobset, "metadata": {"name": "y"}}
        message = api.request("POST", _path(another, namespace), another)[1]["message"]
        assert parse_exceeded(message) == shortfalls(quotas, charged_objects(another)) != []
    finally:
        if installed:
            plane.kubectl("delete", "customresourcedefinition", "jobsets.jobset.x-k8s.io")
