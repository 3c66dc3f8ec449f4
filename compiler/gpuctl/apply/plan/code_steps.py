"""The ConfigMaps with the code of jobs: one for each version of the files. The one before the current stays, for a
rollback.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from gpuctl.apply.plan.plan import Step
from gpuctl.hints import JobHint
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, Object, key_of, labels_of
from gpuctl.objects.companion_names import ARCHIVE_VOLUME, FILES_KEY, is_code_archive, is_code_name
from gpuctl.objects.pod_templates import pod_templates


class CodeChange(NamedTuple):
    """The part of a plan that is about the archives of a job.

    ``steps``: for those that its document does not yield. ``note``: the files that differ. ``error``: the archive of a
    stored document is gone.
    """

    steps: list[Step]
    note: str | None
    error: str | None


def code_change(archives: Iterable[Object], own: Iterable[Object], main: Step, title: str) -> CodeChange:
    """Return what a plan does with the archives of a job.

    Of those that its document does not need, the one that the live workload mounts stays, else the newest. Older ones
    are deleted at the end of the run.

    :param archives: the live ones of the job.
    :param own: the objects that the document yields. A stored document yields no archive, and needs the live one.
    """
    own, there = list(own), {obj["metadata"]["name"]: obj for obj in archives}
    wanted = {name for obj in own if obj["kind"] in WORKLOADS for name in _mounted(obj)}
    missing = sorted(wanted - there.keys() - {obj["metadata"]["name"] for obj in own})
    used = set(_mounted(main.live)) if main.live is not None else set()
    yielded = {obj["metadata"]["name"]: obj for obj in own if is_code_archive(obj)}
    left = newest_first(there, used)
    spare = [name for name in left if name not in wanted]
    stay = {*wanted, *spare[:1]}
    steps = [_step(there[name], title, stays=name in stay) for name in left if name not in yielded]
    new = next((yielded[name] for name in sorted(yielded.keys() & wanted)), None)
    old = next((there[name] for name in sorted(there.keys() & used)), None)
    return CodeChange(steps, _note(old, new, title), _error(missing[0], main, title) if missing else None)


def _mounted(workload: Object) -> list[str]:
    """Return the names of the archives that the pods of a workload mount."""
    volumes = (volume for template, _ in pod_templates(workload) for volume in template["spec"].get("volumes") or [])
    # A podPatch may have another volume of this name.
    names = [(volume.get("configMap") or {}).get("name") for volume in volumes if volume["name"] == ARCHIVE_VOLUME]
    return [name for name in names if name and is_code_name(name, labels_of(workload).get("app") or "")]


def newest_first(versions: Mapping[str, Object], used: Collection[str]) -> list[str]:
    """Return the names of the live versions of an object: those that the live workload names, then the newest."""
    return sorted(versions, key=lambda name: (name in used, _age(versions[name])), reverse=True)


def _age(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("creationTimestamp") or "", obj["metadata"]["name"]


def _step(obj: Object, title: str, *, stays: bool) -> Step:
    key = key_of(obj)
    if stays:
        return Step("unchanged", key, say("earlier code, for a rollback"), live=obj, title=title, shared=True)
    return Step(
        "delete", key, say("code that {title} used before", title=title), live=obj, method="delete", title=title
    )


def _error(name: str, main: Step, title: str) -> str:
    namespace = main.key.namespace
    history = JobHint("history", title.partition("/")[2], namespace)
    return say(
        "{title}: the cluster no longer has the files of its `code.local` (configmap/{name} in {namespace}): check out "
        "the commit that {history} lists, and apply its document",
        title=title,
        name=name,
        namespace=namespace,
        history=history,
    )


def _note(old: Object | None, new: Object | None, title: str) -> str | None:
    if new is None or old is None or key_of(new) == key_of(old):
        return None
    before, after = _listed(old), _listed(new)
    changed = [path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]
    marks = {
        path: say(" (new)") if path not in before else say(" (removed)") if path not in after else ""
        for path in changed
    }
    files = [path + marks[path] for path in changed] or [say("the modes of files")]
    return say("the code of {title} differs: {files:few6}", title=title, files=files)


def _listed(obj: Object) -> Mapping[str, str]:
    """Return path -> hash of the files in an archive."""
    lines = (line.partition("  ") for line in (obj.get("data") or {}).get(FILES_KEY, "").split("\n") if line)
    return {path: digest for digest, _, path in lines}
