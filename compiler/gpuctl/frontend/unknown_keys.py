"""Hints for a key that a block does not have."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuctl.frontend.diagnostics import FieldPath, format_path
from gpuctl.frontend.field_shapes import ModelShape, kind_shape
from gpuctl.frontend.spans import value_at
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, OptionNode, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.kinds import WORKLOADS
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import fold, nearest, suggest_name

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
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
    )
}
_POD_FIELDS["serviceaccount"] = "serviceAccountName"
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


class Replacement(NamedTuple):
    """A line of gpuctl's documents that does what a field of another tool, or of Kubernetes, does.

    :ivar place: block that the line belongs in; "" for the top of the document.
    :ivar kinds: kinds that have the field; empty for every kind of job.
    :ivar more: end of the hint.
    """

    line: str
    place: str = ""
    kinds: tuple[str, ...] = ()
    more: Template = Template("")

    @property
    def key(self) -> str:
        return self.line.partition(":")[0]

    def hint(self, kind: str, top: str) -> Sentence | None:
        """Return the hint for a document of a kind; None if jobs of the kind cannot have the field.

        :param top: the block that contains a partial document; "" for a document.
        """
        terms = {"line": self.line, "block": self.place, "more": say(self.more)}
        if not self.kinds or kind in self.kinds:
            return _write(self.line, self.place or top, say(self.more))
        if self.kinds != _TRAINING:
            return None
        if self.place:
            return say("a training can have `{line}` in `{block}`{more}", **terms)
        return say("a training can have `{line}` at its top{more}", **terms)


_TRAINING = ("training",)
_SERVICES = ("inference", "notebook", "compute")
_OTHER = Template("; other fields go into `podPatch`")
_PROBE = Replacement("health_check: /health", "service", _SERVICES)
_KUBERNETES_FIELDS = {
    "activeDeadlineSeconds": Replacement("max_runtime: 24h", "job", _TRAINING),
    "hostNetwork": Replacement("network: {hostNetwork: true}", "resources"),
    "initContainers": Replacement("init: [{name: NAME, image: IMAGE}]"),
    "lifecycle": Replacement(
        'on: {stop: ["COMMAND"]}', "job", more=Template("; a postStart hook goes into `podPatch`")
    ),
    "livenessProbe": Replacement("liveness: /healthz", "service", _SERVICES),
    "nodeName": Replacement(
        "podPatch: {nodeSelector: {kubernetes.io/hostname: NODE}}", more=Template(", or use a pool")
    ),
    "readinessProbe": _PROBE,
    "securityContext": Replacement("security: {user: 1000}", more=_OTHER),
    "startupProbe": _PROBE,
    "sysctls": Replacement("podPatch: {securityContext: {sysctls: [{name: SYSCTL, value: VALUE}]}}"),
    "terminationGracePeriodSeconds": Replacement("grace: 2m", "job"),
    "volumeMounts": Replacement("storage: {mounts: [{path: /etc/app, configMap: NAME}]}"),
}
"""Fields of Kubernetes' PodSpec and Container that documents have as a field of their own."""
_OWN_FIELDS = {fold(name): field for name, field in _KUBERNETES_FIELDS.items()} | {
    fold(name): field
    for names, field in (
        (
            "after depends_on dependencies dependency needs",
            Replacement("after: [NAME]", "job", _TRAINING, Template(": it starts when the job NAME has succeeded")),
        ),
        ("schedule cron crontab", Replacement('schedule: "0 2 * * *"', kinds=_TRAINING)),
        (
            "array arrays tasks",
            Replacement(
                "array: 100", kinds=_TRAINING, more=Template(": the program reads its index from GPUCTL_ARRAY_INDEX")
            ),
        ),
        (
            "sweep matrix grid hyperparameters",
            Replacement("sweep: {lr: [1e-5, 2e-5]}", kinds=_TRAINING, more=Template(": one job for each combination")),
        ),
        (
            "head worker workers launcher master replica_specs",
            Replacement("roles: [{name: head}, {name: worker, nodes: 2}]", kinds=_TRAINING),
        ),
        (
            "distributed nnodes num_nodes node_count world_size",
            Replacement("nodes: 2", "resources", _TRAINING, Template(": `gpu` is the number of GPUs per node")),
        ),
        (
            "gpus_per_node nproc_per_node num_gpus n_gpus gpu_count",
            Replacement("gpu: 8", "resources", more=Template(": the number of GPUs per node")),
        ),
        ("git repo repository", Replacement("code: {git: URL, ref: COMMIT}")),
        (
            "setup run script before_script entrypoint",
            Replacement('command: ["bash", "-c", "..."]', "environment"),
        ),
        ("rdma infiniband", Replacement("network: {rdma: true}", "resources")),
        ("volumes volume_claims datasets", Replacement("storage: {workdirs: [{path: /data, pvc: {claim: NAME}}]}")),
        ("time timeout walltime time_limit", Replacement("max_runtime: 24h", "job", _TRAINING)),
    )
    for name in names.split()
}
"""Folded fields of Kubernetes and other tools (Slurm, SkyPilot, Argo Workflows, Compose, CI systems) -> gpuctl's."""

_OF_CLAIMS = {"name": "claim", "claimname": "claim", "pvc": "claim"}
_OTHER_NAMES = {
    "code": {
        **dict.fromkeys(("url", "repo", "repository", "remote"), "git"),
        **dict.fromkeys(("commit", "branch", "tag", "revision", "rev"), "ref"),
        **dict.fromkeys(("recursive", "recurse", "submodule"), "submodules"),
        **dict.fromkeys(("dir", "directory", "subdir", "subpath", "contextdir"), "path"),
    },
    "job": {"backofflimit": "retries", "ttlsecondsafterfinished": "ttl"},
    "resources": {
        **dict.fromkeys(("distributed", "nnodes", "numnodes", "nodecount", "replicas"), "nodes"),
        **dict.fromkeys(("gpuspernode", "nprocpernode", "numgpus", "ngpus", "gpucount"), "gpu"),
    },
    "roles": {"replicas": "nodes", "count": "nodes", "needs": "dependsOn"},
    "security": {"runasuser": "user", "runasgroup": "group"},
    "storage.workdirs.pvc": _OF_CLAIMS,
    "storage.default.pvc": _OF_CLAIMS,
}
"""Block -> folded key of other tools -> the block's own key."""
_MISSPELT = 0.8
"""Similarity of a key that can only be a misspelt form of another."""
_KEY_OF_EACH = Template("write `env: [{{name: NAME, secret: NAME, key: KEY}}]`, one for each variable")
_NO_LFS = Template("files of Git LFS are not fetched: put large files into `storage`")
_INSTEAD = {
    ("code", "lfs"): _NO_LFS,
    ("code", "gitlfs"): _NO_LFS,
    ("init", "envfrom"): _KEY_OF_EACH,
    ("sidecars", "envfrom"): _KEY_OF_EACH,
    ("roles.resources", "nodes"): Template("`nodes` belongs in the role, beside its `resources`"),
    ("security", "runasnonroot"): Template("write `user: 1000`, or the number of another user than root"),
    ("service.disruption", "minavailable"): Template("write `maxUnavailable`: the number of pods less minAvailable"),
}
"""Block and folded key -> what to write instead."""


def split_text_hint(source: str, node: YamlNode, key: YamlNode, value: YamlNode) -> Sentence | None:
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
    return say('quote the text if the comma belongs to it: "{text}"', text=shorten(earlier.value + between + key.value))


def joined_pair_hint(key: YamlNode, value: YamlNode, shape: ModelShape) -> Sentence | None:
    """Return the hint for ``key:value`` and ``key=value``, which YAML reads as one key; None in other cases."""
    pair = re.match(r"([A-Za-z][\w-]*)\s*[:=]\s*(\S.*)\Z", key.value)
    if pair is None or not key.plain or shape.find(pair[1]) is None:
        return None
    if pair[2][0] in "{[":
        return say("write `{text}` and a blank", text=f"{pair[1]}:")
    return say("write `{text}`", text=f"{pair[1]}: {shorten(pair[2])}") if value.is_null else None


def unknown_key_hint(
    key: YamlNode, value: YamlNode, block: YamlNode, root: YamlNode, path: FieldPath, shape: ModelShape, kind: str
) -> Sentence:
    """Return the hint for a key that the block at ``path`` does not have.

    It names a similar key, the block that has this key, the equivalent in another block or ``podPatch``, or all keys of
    the block. It says if the field that it names is written already.

    :param root: the document.
    """
    text: str = key.value
    # Keys of a profile or an option are not beside those of the document that they are merged into.
    beside = {fold(other.value) for other, _ in block.value if _is_in(other, block) == _is_in(key, block)}
    if fold(text) == "valuefrom" and "secret" in shape.keys:
        return say("write `secret: NAME` and `key: KEY`, `configMap: NAME` and `key: KEY`, or `fieldRef: FIELD`")
    top = ""
    if kind == "platform" and path[:1] == ("defaults",) and len(path) > 1:
        # A partial document of another kind.
        top = format_path(path[:2])
        root, kind, path = value_at(root, path[:2]) or root, str(path[1]), path[2:]
    place = ".".join(part for part in path if isinstance(part, str))
    if place == "job.sweep":
        return say("the parameters of a sweep belong in `sweep` at the top of the document")
    meant = _OTHER_NAMES.get(place, {}).get(fold(text))
    if meant is not None and fold(meant) in shape.fields:
        return _suggest(meant, beside)
    if (instead := _INSTEAD.get((place, fold(text)))) is not None:
        return say(instead)
    if path[-1:] == ("on",) and fold(text) in ("preempt", "evict", "prestop", "term", "sigterm"):
        if "stop" in beside:
            return say("remove it: Kubernetes runs `stop` before it ends a pod for any reason, preemption too")
        return say("did you mean `stop`? Kubernetes runs it before it ends a pod for any reason, preemption too")
    hint = None
    close = nearest(text, shape.keys)
    if close is not None and (fold(close) not in beside or close == nearest(text, [close], _MISSPELT)):
        hint = _suggest(close, beside)
    home = _home_of(text, path, kind)
    if home is not None and (hint is None or fold(text) in home[1]):
        return _belongs(home[2], home[0], root, top)
    if kind in WORKLOADS:
        own = _OWN_FIELDS.get(fold(text))
        is_here = own is not None and (not own.kinds or kind in own.kinds)
        if own is not None and is_here and (path[:1] == (own.key,) or _is_written(root, own.place, own.key)):
            hint = hint or _belongs(own.key, own.place, root, top)
            own = None
        hint = (own.hint(kind, top) if own is not None else None) or _pod_patch(text, value, top) or hint
    return hint or say("the fields here are {names}", names=list(shape.keys))


def _write(line: str, block: str, more: str = "") -> Sentence:
    """Return the hint to write a line in a block, or without one at the top of the document."""
    if block:
        return say("write `{line}` in `{block}`{more}", line=line, block=block, more=more)
    return say("write `{line}` at the top of the document{more}", line=line, more=more)


def _pod_patch(text: str, value: YamlNode, top: str) -> Sentence | None:
    """Return the hint to set a field of Kubernetes' PodSpec or Container with ``podPatch``; None for any other key.

    :param top: the block that contains a partial document; "" for a document.
    """
    folded = fold(text)
    shown = value.value if value.kind == SCALAR and not value.is_null else "..."
    if value.kind != SCALAR:
        shown = "[...]" if value.kind == SEQUENCE else "{...}"
    if folded in _POD_FIELDS:
        return _write(f"podPatch: {{{_POD_FIELDS[folded]}: {shorten(shown)}}}", top)
    if folded in _CONTAINER_FIELDS:
        return _write(f"podPatch: {{containers: [{{name: main, {_CONTAINER_FIELDS[folded]}: {shorten(shown)}}}]}}", top)
    return None


def _is_in(key: YamlNode, block: YamlNode) -> bool:
    """Return True if a key is written inside of the block's own text."""
    return not isinstance(key, OptionNode) and block.start <= key.start < block.end


def _belongs(field: str, block: str, root: YamlNode, top: str) -> Sentence:
    """Return the hint that a field belongs in another block, or at the top of the document.

    :param top: the block of defaults that takes the place of a document; "" in a document.
    """
    belongs = say("`{field}` belongs at the top of the document", field=field)
    if block or top:
        belongs = say("`{field}` belongs in `{block}`", field=field, block=block or top)
    return say("{place}, which has it already", place=belongs) if _is_written(root, block, field) else belongs


def _suggest(name: str, beside: set[str]) -> Sentence:
    """Return the hint that a key of the block was meant."""
    if fold(name) in beside:
        return say("`{name}` is written already: keep one", name=name)
    return suggest_name(name)


def _is_written(root: YamlNode, block: str, key: str) -> bool:
    """Return True if a block has a key whose value cannot take a further field."""
    written = value_at(root, (block, key) if block else (key,))
    return written is not None and written.kind != MAPPING


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
