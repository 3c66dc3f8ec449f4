"""``gpuctl impact`` of random repositories, compared with a count of the objects that ``render`` prints."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from properties.scale import part_of
from support.repositories import Repository

Object = dict[str, Any]
TYPES = ("A100-80G", "h100.80g", "T4")
NAMESPACES = ("nlp", "vision", "default")
UNITS = {"Gi": 2**30, "Mi": 2**20, "Ti": 2**40, "m": Fraction(1, 1000)}
GPU = "nvidia.com/gpu"


class DocumentGenerator:
    """Generator of random documents."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def files(self) -> dict[str, str]:
        draw = self.random
        documents: list[Object] = []
        if draw.random() < 0.4:
            platform: Object = {"kind": "platform", "version": "v0.1"}
            if draw.random() < 0.5:
                platform["training"] = {"backend": "jobset"}
            if draw.random() < 0.5:
                platform["quota"] = {"defaultRequest": {"cpu": "3", "memory": "512Mi"}}
            documents.append(platform)
        for pool in ("alpha", "beta", "default"):
            if draw.random() < 0.7:
                documents.append(self.pool(pool))
        for name in draw.sample(("one", "two", "three"), draw.randint(0, 3)):
            documents.append(self.quota(name))
        for name in draw.sample("abcdefghij", draw.randint(0, 8)):
            documents.append(self.job(name))
        draw.shuffle(documents)
        files: dict[str, list[Object]] = defaultdict(list)
        for document in documents:
            plain = document["kind"] == "platform"
            files[
                "platform.yaml" if plain else f"{draw.choice(('', 'sub/', 'sub/дальше/'))}{draw.choice('xyz')}.yml"
            ].append(document)
        return {name: yaml.safe_dump_all(items, allow_unicode=True) for name, items in files.items()}

    def pool(self, name: str) -> Object:
        draw = self.random
        nodes: Object = {}
        for number in range(draw.randint(0, 4)):
            node: Object = {}
            if draw.random() < 0.9:
                node["gpu-type"] = draw.choice(TYPES)
            if draw.random() < 0.95:
                node["gpu-count"] = draw.randint(0, 8)
            nodes[f"{name}-{number}"] = node
        return {"kind": "pool", "version": "v0.1", "pool": {"name": name}, "nodes": nodes}

    def quota(self, name: str) -> Object:
        draw = self.random
        limits = {
            "cpu": draw.choice(("10", "1500m", 64)),
            "memory": draw.choice(("100Gi", "1Ti")),
            "gpu": draw.randint(0, 20),
            "maxJobs": draw.randint(0, 4) or 1,
        }
        users = {
            namespace: dict(draw.sample(sorted(limits.items()), draw.randint(1, 4)))
            for namespace in draw.sample(NAMESPACES, draw.randint(1, 3))
        }
        return {"kind": "quota", "version": "v0.1", "quota": {"name": name}, "users": users}

    def job(self, name: str) -> Object:
        draw = self.random
        kind = draw.choice(("training", "training", "inference", "notebook", "compute"))
        resources: Object = {"gpu": draw.choice((0, 1, 2, 4, 8))}
        if draw.random() < 0.8:
            resources["pool"] = draw.choice(("alpha", "beta", "nowhere"))
        if draw.random() < 0.5 and resources["gpu"]:
            written = draw.choice(TYPES)
            resources["gpu-type"] = draw.choice((written, written.lower(), written.upper()))
        for key, values in (("cpu", (4, "500m")), ("memory", ("8Gi", "300Mi"))):
            if draw.random() < 0.7:
                resources[key] = draw.choice(values)
        job: Object = {"name": name}
        if draw.random() < 0.8:
            job["namespace"] = draw.choice(NAMESPACES)
        document: Object = {"kind": kind, "version": "v0.1", "job": job, "resources": resources}
        document["environment"] = {"image": "registry.example.com/x:v1", "command": ["run"]}
        if kind == "training":
            resources["nodes"] = draw.choice((1, 1, 2, 3))
        elif kind in ("inference", "compute"):
            document["service"] = {"port": 8000, "replicas": draw.choice((1, 2, 5))}
        if kind == "inference" and draw.random() < 0.6:
            least = draw.randint(1, 3)
            document["autoscaling"] = {
                "enabled": draw.random() < 0.8,
                "metric": "queue",
                "minReplicas": least,
                "maxReplicas": least + draw.randint(0, 4),
            }
        if draw.random() < 0.2:
            extra = {"name": "extra", "image": "registry.example.com/y:v1", "resources": {"requests": {"cpu": "2"}}}
            document["podPatch"] = {draw.choice(("containers", "initContainers")): [extra]}
        return document


def quantity(text: Any) -> Fraction:
    """Parse a Kubernetes quantity."""
    text = str(text)
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    return Fraction(text.removesuffix(unit)) * UNITS.get(unit, 1)


class Totals:
    """Totals of rendered objects: GPUs per pool and type, requests and limits per namespace and resource."""

    def __init__(self, objects: list[Object]) -> None:
        self.pools: dict[tuple[str, str], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
        self.asked: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        self.hard: dict[tuple[str, str], Fraction] = {}
        scalers = {
            (obj["metadata"]["namespace"], obj["metadata"]["name"]): obj["spec"]
            for obj in objects
            if obj["kind"] == "HorizontalPodAutoscaler"
        }
        defaults = {
            obj["metadata"]["namespace"]: obj["spec"]["limits"][0]["defaultRequest"]
            for obj in objects
            if obj["kind"] == "LimitRange"
        }
        for obj in objects:
            namespace = obj["metadata"].get("namespace")
            if obj["kind"] == "ResourceQuota":
                for key, value in obj["spec"]["hard"].items():
                    self.hard[namespace, key] = min(quantity(value), self.hard.get((namespace, key), quantity(value)))
            elif obj["kind"] in ("Job", "JobSet", "Deployment", "StatefulSet"):
                self.workload(obj, scalers.get((namespace, obj["metadata"]["name"])), defaults.get(namespace, {}))

    def workload(self, obj: Object, scaler: Object | None, defaults: dict[str, str]) -> None:
        namespace, spec = obj["metadata"]["namespace"], obj["spec"]
        if obj["kind"] == "JobSet":
            spec = spec["replicatedJobs"][0]["template"]["spec"]
        if obj["kind"] in ("Job", "JobSet"):
            self.asked[namespace, "count/jobs.batch"] += 1
        least = most = spec.get("replicas", spec.get("parallelism", 1))
        if scaler is not None:
            least, most = scaler["minReplicas"], scaler["maxReplicas"]
        pod = spec["template"]["spec"]
        requests = {key: Fraction(0) for key in ("cpu", "memory", GPU)}
        for key in requests:

            def asked(container: Object, key: str = key) -> Fraction:
                own = container.get("resources") or {}
                value = {**(own.get("limits") or {}), **(own.get("requests") or {})}.get(key, defaults.get(key, 0))
                return quantity(value)

            first = max((asked(item) for item in pod.get("initContainers") or []), default=Fraction(0))
            requests[key] = max(first, sum((asked(item) for item in pod["containers"]), Fraction(0)))
            self.asked[namespace, f"requests.{key}"] += requests[key] * most
        selector = pod.get("nodeSelector") or {}
        place = selector.get("runwhere.ai/pool", "default"), selector.get("runwhere.ai/gpu-type", "any")
        if requests[GPU]:
            for where in (place, (place[0], None)):
                self.pools[where][0] += requests[GPU] * least
                self.pools[where][1] += requests[GPU] * most


def rendered_totals(repository: Repository) -> Totals | None:
    """Return the totals of the rendered documents; None if they do not compile."""
    found = repository.gpuctl("render", ".", "-o", "json")
    if found.code:
        return None
    value = json.loads(found.out)
    return Totals(value["items"] if isinstance(value, dict) else value)


@pytest.mark.parametrize("seed", part_of(range(40), 3))
def test_numbers_equal_those_of_the_rendered_objects(seed: int, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r")
    maker = DocumentGenerator(seed)
    counts: list[Totals] = []
    while len(counts) < 2:
        for path in repository.root.iterdir():
            if path.name != ".git":
                repository.remove(path.name)
        for name, text in maker.files().items():
            repository.write(name, text)
        if not any(repository.root.rglob("*.y*ml")):
            continue
        count = rendered_totals(repository)
        if count is not None:
            counts.append(count)
            repository.commit()
    found = repository.gpuctl("impact", "--from", "HEAD~1", "--to", "HEAD", "-o", "json")
    report = json.loads(found.out)
    assert found.code == int(any(item["new"] for item in report["breakages"]))
    for index, side in enumerate(("before", "after")):
        count = counts[index]
        reported = {
            (row["pool"], row["gpuType"]): [row[side]["gpus"], row[side]["gpusAtMost"]]
            for row in report["pools"]
            if row[side]["gpusAtMost"]
        }
        several = {pool for pool, gpu_type in reported if gpu_type is None}
        wanted = {key: value for key, value in count.pools.items() if key[1] is not None or key[0] in several}
        assert reported == wanted, side
        for row in report["quotas"]:
            key = row["namespace"], row["resource"]
            assert row[side]["hard"] == count.hard.get(key), (side, key)
            if key[1] == "count/jobs.batch" or count.hard.get(key) is not None:
                assert row[side]["asked"] == count.asked[key], (side, key)
        assert {(row["namespace"], row["resource"]) for row in report["quotas"]} >= count.hard.keys()
