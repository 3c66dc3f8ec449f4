"""Documents that have to do with each other: jobs of every kind, their pool, a quota and a platform."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpuctl
from gpuctl.backend.emitter import emit_object
from gpuctl.compilation import Compilation
from gpuctl.frontend.document import Document
from gpuctl.incremental.run import compiled_for_cluster, manifests
from gpuctl.incremental.store import Store

PLATFORM = """kind: platform
version: v0.1
labels: {domain: gpu.example.com}
defaults:
  training: {job: {ttl: 7d}}
"""
POOL = """kind: pool
version: v0.1
pool: {name: big}
nodes:
  node-1: {gpu-type: A100-80G, gpu-count: 8}
  node-2: {gpu-type: a10, gpu-count: 4}
"""
QUOTA = """kind: quota
version: v0.1
quota: {name: team}
namespace: {team-1: {cpu: 12, gpu: 3}}
"""


def job(number: int, gpu_type: str = "a100-80g") -> str:
    """One of many jobs; the pool spells its GPU type otherwise, and some are warned of."""
    kind = ("training", "inference", "compute", "notebook")[number % 4]
    gpus = 0 if kind == "compute" else 1
    pool = "" if kind == "compute" else f", pool: big, gpu-type: {gpu_type}"
    return f"""kind: {kind}
version: v0.1
job: {{name: job-{number}, namespace: team-{number % 3}, description: "number {number}: 任务"}}
environment:
  image: registry.example.com/app:v{number}
  command: [python, main.py, --seed, "{number}"]
resources: {{gpu: {gpus}{pool}, cpu: 4, memory: 8Gi}}
storage:
  workdirs: [{{path: /data/{number}, type: DirectoryOrCreate}}]
"""


def write_tree(directory: Path, jobs: int = 24) -> Path:
    """A repository: half of the jobs in files of their own, the others in one stream."""
    directory.mkdir(exist_ok=True)
    texts = [job(number) for number in range(jobs)]
    for number, text in enumerate(texts[: jobs // 2]):
        (directory / f"job-{number}.yaml").write_text(text, encoding="utf-8")
    (directory / "stream.yaml").write_text("---\n".join(texts[jobs // 2 :]), encoding="utf-8")
    for name, text in (("platform", PLATFORM), ("pool", POOL), ("quota", QUOTA)):
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")
    return directory


Told = tuple[list[str], list[Any], int, bool]


def in_one(inputs: list[str], **options: Any) -> Told:
    """What the library says of inputs."""
    result = gpuctl.compile(inputs, **options)
    return [emit_object(obj) for obj in result.objects], result.diagnostics, len(result.documents), result.ok


def in_parts(inputs: list[str], **options: Any) -> Told:
    """What the command line's road says of them."""
    result = manifests(inputs, **options)
    assert [item.text for item in result.lowered] == list(result.texts())
    assert len(result.lowered) == result.objects
    return list(result.texts()), result.diagnostics, result.documents, result.ok


def _told_of(document: Document) -> tuple[Any, ...]:
    """What is asked of a document once it is compiled."""
    named = document.kind, document.name, document.namespace, document.names_namespace, document.clusters
    return *named, document.gpu_type, document.file, document.span(("kind",)), document.model


def _all_of(result: Compilation) -> dict[str, Any]:
    order = {id(document): number for number, document in enumerate([*result.documents, *result.left_out])}
    return {
        "objects": result.objects,
        "lowered": [(item.object, order[id(item.document)], item.shared) for item in result.lowered],
        "diagnostics": result.diagnostics,
        "documents": [_told_of(document) for document in result.documents],
        "left out": [_told_of(document) for document in result.left_out],
        "platform": result.settings.platform,
        "files": {os.path.realpath(source.path or ""): source.text for source in result.sources.values()},
    }


def for_cluster_in_one(inputs: list[str], **options: Any) -> dict[str, Any]:
    """What the library compiles for a cluster."""
    return _all_of(gpuctl.compile(inputs, nodes=True, embed=True, namespaces=True, **options))


def for_cluster_kept(inputs: list[str], store: Store, **options: Any) -> dict[str, Any]:
    """The same by the road of `apply`, with what earlier runs left."""
    return _all_of(compiled_for_cluster(inputs, store=store, **options))


def entries(cache: Path) -> list[Path]:
    """The files of a cache."""
    folder = cache / "gpuctl" / "compile"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def mode_of(path: Path) -> int:
    """A path's permissions."""
    return stat.S_IMODE(os.lstat(path).st_mode)


def counted(function: Callable[..., Any], counts: list[int]) -> Callable[..., Any]:
    """The function, whose second argument's length is written down at each call."""

    def call(first: Any, second: Any, *rest: Any) -> Any:
        counts.append(len(second))
        return function(first, second, *rest)

    return call
