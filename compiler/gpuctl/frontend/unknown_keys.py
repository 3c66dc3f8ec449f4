"""Hints for a key that a block does not have."""

from __future__ import annotations

from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.frontend.field_shapes import ModelShape, kind_shape
from gpuctl.frontend.yaml_tree import SCALAR, SEQUENCE, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.kinds import WORKLOADS
from gpuctl.language.spelling import fold, nearest

_POD_FIELDS = {
    fold(name): name
    for name in (
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "resourceClaims",
        "runtimeClassName",
        "schedulerName",
        "securityContext",
        "serviceAccountName",
        "shareProcessNamespace",
        "sysctls",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
    )
}
_CONTAINER_FIELDS = {
    fold(name): name
    for name in (
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "stdin",
        "terminationMessagePath",
        "tty",
        "volumeDevices",
        "volumeMounts",
    )
}
_CODE = "write `code: {git: URL, ref: COMMIT}` at the top of the document"
_SCRIPT = 'write `command: ["bash", "-c", "..."]` in `environment`'
_SCHEDULE = 'a training can have `schedule: "0 2 * * *"` at its top'
_ARRAY = "a training can have `array: 100` at its top: the program reads its index from GPUCTL_ARRAY_INDEX"
_SWEEP = "a training can have `sweep: {lr: [1e-5, 2e-5]}` at its top: one job for each combination"
_AFTER = "there are no dependencies: apply the job after `gpuctl wait NAME --for done` has ended"
_RDMA = 'ask for the device: `podPatch: {containers: [{name: main, resources: {limits: {rdma/hca: "1"}}}]}`'
_VOLUMES = "write `storage: {workdirs: [{path: /data, pvc: {claim: NAME}}]}`"
_ROLES = "write `roles: [{name: head}, {name: worker, nodes: 2}]` at the top of the document"
_OTHER_TOOLS = {
    fold(name): hint
    for names, hint in (
        ("schedule cron crontab", _SCHEDULE),
        ("array arrays tasks", _ARRAY),
        ("sweep matrix grid hyperparameters", _SWEEP),
        ("after depends_on dependencies dependency needs", _AFTER),
        ("head worker workers launcher master replica_specs", _ROLES),
        ("git repo repository", _CODE),
        ("setup run script before_script entrypoint", _SCRIPT),
        ("rdma infiniband", _RDMA),
        ("volumes volume_claims datasets", _VOLUMES),
        ("time timeout walltime time_limit", "write `max_runtime: 24h` in `job`"),
    )
    for name in names.split()
}
"""Fields of other tools (Slurm, SkyPilot, Argo Workflows, Compose, CI systems) -> what gpuctl offers instead."""

_PARTS_OF_CODE = {
    **dict.fromkeys(("url", "repo", "repository", "remote"), "git"),
    **dict.fromkeys(("commit", "branch", "tag", "revision", "rev"), "ref"),
    **dict.fromkeys(("dir", "directory", "subdir", "subpath", "contextdir"), "path"),
}


def split_text_hint(source: str, node: YamlNode, key: YamlNode, value: YamlNode) -> str | None:
    """Return the hint for ``{value: a,b}``, where the comma was meant as text; None in other cases."""
    if not (value.is_null and value.value == "" and key.plain):
        return None
    earlier = None
    for candidate, text in node.value:
        if candidate is key:
            break
        earlier = text
    if earlier is None or earlier.kind != SCALAR or not earlier.plain or earlier.is_null:
        return None
    between = source[earlier.end : key.start]
    if between.strip(" \t") != ",":
        return None
    return f'quote the text if the comma belongs to it: "{shorten(earlier.value + between + key.value)}"'


def unknown_key_hint(text: str, path: FieldPath, shape: ModelShape, kind: str, value: YamlNode) -> str:
    """Return the hint for a key that the block at ``path`` does not have.

    It names a similar key, the block that has this key, the equivalent in another block or ``podPatch``, or all keys of
    the block.
    """
    if fold(text) == "valuefrom" and "secret" in shape.keys:
        return "write `secret: NAME` and `key: KEY` for a Secret; other sources go into `podPatch`"
    if path[-1:] == ("pvc",) and fold(text) in ("name", "claimname", "pvc"):
        return "did you mean `claim`?"
    if path == ("code",) and fold(text) in _PARTS_OF_CODE:
        return f"did you mean `{_PARTS_OF_CODE[fold(text)]}`?"
    if path[-1:] == ("on",) and fold(text) in ("preempt", "evict", "prestop", "term", "sigterm"):
        return "did you mean `stop`? Kubernetes runs it before it ends a pod for any reason, preemption too"
    hint = None
    close = nearest(text, shape.keys)
    if close is not None and fold(close) != fold(text):
        hint = f"did you mean `{close}`?"
    home = _home_of(text, path, kind)
    if home is not None and (hint is None or fold(text) in home[1]):
        return f"`{home[2]}` belongs in `{home[0]}`" if home[0] else f"`{home[2]}` belongs at the top of the document"
    if kind in WORKLOADS:
        hint = _pod_patch(text, value) or _OTHER_TOOLS.get(fold(text)) or hint
    return hint or f"the fields here are {', '.join(shape.keys)}"


def _pod_patch(text: str, value: YamlNode) -> str | None:
    """Return the hint to set a field of Kubernetes' PodSpec or Container with ``podPatch``; None for any other key."""
    folded = fold(text)
    shown = value.value if value.kind == SCALAR and not value.is_null else "..."
    if value.kind != SCALAR:
        shown = "[...]" if value.kind == SEQUENCE else "{...}"
    if folded in _POD_FIELDS:
        return f"write `podPatch: {{{_POD_FIELDS[folded]}: {shorten(shown)}}}` at the top of the document"
    if folded in _CONTAINER_FIELDS:
        field = f"{_CONTAINER_FIELDS[folded]}: {shorten(shown)}"
        return f"write `podPatch: {{containers: [{{name: main, {field}}}]}}` at the top of the document"
    return None


def _home_of(text: str, path: FieldPath, kind: str) -> tuple[str, frozenset[str], str] | None:
    """Return the block of a kind that has a key, as (block, its folded keys, canonical key); None without one."""
    top = kind_shape(kind)
    folded = fold(text)
    if path and folded in top.fields:
        return ("", frozenset({folded}), top.fields[folded][0])
    for block, shape in top.fields.values():
        if isinstance(shape, ModelShape) and folded in shape.fields and (block,) != path[:1]:
            return (block, frozenset(shape.fields), shape.fields[folded][0])
    return None
