"""``podPatch``: partial PodSpecs merged into the pod last. Order: the platform's for the kind, its pool's, the
document's.

Each is merged into the result of those before it, so a document's patch adds to the platform's and cannot remove it.
Fields by which commands find and select pods cannot be patched. The merged pod is checked as a whole, and each problem
is reported at the place in the patch that caused it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.patch_rules import (
    foreign_images,
    has_nvidia,
    has_step,
    patch_problems,
    policy_problems,
    problems_without_pod,
)
from gpuctl.backend.pod_merge import key_of, merge_spec
from gpuctl.backend.pod_network import HOST_NETWORK_DNS
from gpuctl.backend.pod_problems import PodProblem, strings_at
from gpuctl.backend.pod_validation import check_pod, no_volume
from gpuctl.backend.visible_devices import no_visible_devices
from gpuctl.frontend.diagnostics import MAX_DIAGNOSTICS, FieldPath
from gpuctl.frontend.document import Document
from gpuctl.frontend.field_shapes import kind_shape
from gpuctl.frontend.platform_restrictions import (
    VISIBLE_DEVICES,
    forbidden_host_path,
)
from gpuctl.frontend.templates import expand_patch
from gpuctl.language.kinds import Job
from gpuctl.language.names import MAIN_CONTAINER
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.objects.api_resources import Object

_REFERRED_TO = frozenset({"volumes", "containers", "initContainers", "resourceClaims"})
"""Fields whose entries are referred to by name: if one is invalid, the rest of the patch cannot be checked."""
_OWN_VOLUMES = re.compile(r"workdir-\d+|mount-\d+|model-\d+|model-cache|dshm|hostfile|code|code-login")
_REFERENCE = Template("see the Kubernetes reference of PodSpec")
_AS_PODS = Template("write the fields of the pod's `spec` directly below `podPatch`")
_AT_PLATFORM = Template("correct it in the platform file")


class Layer(NamedTuple):
    """A patch, its place in the document, and its owner if it is the platform's."""

    patch: Object
    where: FieldPath
    owner: Sentence | None = None


def layers_of(context: Context, model: Job) -> list[Layer]:
    """Return the patches of a pod, in merge order."""
    layers = []
    defaults = context.settings.defaults_of(model.kind)
    if "podPatch" in defaults:
        layers.append(
            Layer(
                defaults["podPatch"], ("kind",), say("the platform's default podPatch for kind {kind}", kind=model.kind)
            )
        )
    external = context.settings.external_pools.get(model.resources.pool)
    if external is not None and external.podPatch is not None:
        owner = say("the platform's podPatch for pool `{pool}`", pool=model.resources.pool)
        layers.append(Layer(external.podPatch, ("resources", "pool"), owner))
    if model.podPatch is not None:
        layers.append(Layer(model.podPatch, ("podPatch",)))
    return layers


def apply_pod_patches(context: Context, document: Document, model: Job, pod: Object) -> bool:
    """Merge all patches of a pod into its spec, in place, and check the result. Return True if it is a valid pod."""
    layers = layers_of(context, model)
    if not layers:
        return True
    sound = True
    layers = [_expanded(context, document, model, layer) for layer in layers]
    for layer in layers:
        problems = [*patch_problems(context, document, model, pod, layer.patch), *_host_paths(context, layer)]
        for problem in problems:
            report_in_patch(context, document, layer, problem, problem.path)
        wrong = {problem.path[0] if problem.path else "" for problem in problems}
        if wrong & {"", *_REFERRED_TO}:
            sound = False
        else:
            merge_spec(pod, {field: value for field, value in layer.patch.items() if field not in wrong})
    if not sound:
        for layer in layers:
            _report_images(context, document, model, layer)
            _report_absent_volumes(context, document, layer, layers)
        return False
    if pod.get("hostNetwork"):
        # Otherwise the pod uses the node's DNS, which does not resolve Services and pods.
        pod.setdefault("dnsPolicy", HOST_NETWORK_DNS)
    _set_visible_devices(context, model, pod)
    return _check_whole(context, document, model, pod, layers)


def check_own_patch(context: Context, document: Document, model: Job, *, has_all_patches: bool) -> None:
    """Report problems of a document's own patch, for a document that has other errors.

    :param has_all_patches: True if the platform has no errors, so that a volume that no patch adds does not exist.
    """
    if isinstance(model.podPatch, dict):
        layer = Layer(model.podPatch, ("podPatch",))
        for problem in (*problems_without_pod(context, document, model, layer.patch), *_host_paths(context, layer)):
            report_in_patch(context, document, layer, problem, problem.path)
        _report_images(context, document, model, layer)
        if has_all_patches:
            _report_absent_volumes(context, document, layer, layers_of(context, model))


def _report_images(context: Context, document: Document, model: Job, layer: Layer) -> None:
    """Report images of a patch from other registries, when the merged pod cannot be checked."""
    for problem in foreign_images(context, model, layer.patch):
        report_in_patch(context, document, layer, problem, problem.path)


def _report_absent_volumes(context: Context, document: Document, layer: Layer, layers: Sequence[Layer]) -> None:
    """Report mounts whose volume is neither in a patch nor gpuctl's, when the merged pod cannot be checked."""
    lists = [other.patch.get("volumes", []) for other in layers]
    if not all(isinstance(volumes, list) for volumes in lists):
        return
    names = [volume.get("name") if isinstance(volume, dict) else None for volumes in lists for volume in volumes]
    volumes = {name for name in names if isinstance(name, str) and "{{" not in name}
    if not all(isinstance(name, str) and name in volumes for name in names):
        return
    for field in ("containers", "initContainers"):
        for place, name in strings_at(layer.patch, f"{field}[].volumeMounts[].name"):
            if name not in volumes and _OWN_VOLUMES.fullmatch(name) is None:
                report_in_patch(context, document, layer, no_volume(place, name, volumes), place)


def _expanded(context: Context, document: Document, model: Job, layer: Layer) -> Layer:
    """Return a platform's patch with its templates filled in from the document. The document's own patch is already
    filled in.
    """
    if layer.owner is None or "{{" not in repr(layer.patch):
        return layer

    def report(path: FieldPath, written: str, message: Sentence, hint: Sentence | None) -> None:
        report_in_patch(context, document, layer, PodProblem(path[1:], message, hint, code="GPU301"), path[1:])

    data = model.model_dump(by_alias=True)
    return layer._replace(patch=expand_patch(layer.patch, data, kind_shape(model.kind), report))


def report_in_patch(context: Context, document: Document, layer: Layer, problem: PodProblem, place: FieldPath) -> None:
    """Report a problem at its place in a patch."""
    message, code = problem.message, problem.code
    if layer.owner is not None:
        text = ".".join(str(part) for part in place)
        message = say("{patch} is wrong at {text}: {message}", patch=layer.owner, text=text, message=message)
        context.report(document, code, message, layer.where, say(_AT_PLATFORM), key=layer.where != ("kind",))
    else:
        hint = problem.hint or say(_AS_PODS if place == ("spec",) else _REFERENCE)
        context.report(document, code, message, (*layer.where, *place), hint, key=True)


def _check_whole(context: Context, document: Document, model: Job, pod: Object, layers: Sequence[Layer]) -> bool:
    """Check the merged pod against the schema, Kubernetes' rules and the platform's, wherever its parts come from.

    Return True if it matches the schema.
    """
    if context.check_pod_spec is None:
        return False
    problems = [PodProblem(*found) for found in context.check_pod_spec(pod, partial=False)]
    is_sound = not problems
    if is_sound:
        found = chain(check_pod(pod), policy_problems(context, model, pod))
        # Further ones are not shown, and each hint takes time.
        problems = list(islice(found, 2 * MAX_DIAGNOSTICS))
    said: set[tuple[FieldPath, str]] = set()
    causes = PatchCauses(pod, layers)
    for problem in problems:
        layer, place = causes.of(problem)
        if (place, problem.message) not in said:
            said.add((place, problem.message))
            report_in_patch(context, document, layer, problem, place)
    return is_sound


class PatchCauses:
    """Finds the patch that caused a problem of a merged pod."""

    def __init__(self, pod: Object, layers: Sequence[Layer]) -> None:
        self._pod = pod
        self._layers = layers
        self._entries: dict[int, dict[Any, int]] = {}
        """id of a list in a patch -> identity of each entry -> its index."""

    def of(self, problem: PodProblem) -> tuple[Layer, FieldPath]:
        """Return the patch that caused a problem, and its path there: the last patch with the longest match."""
        best: tuple[int, Layer, FieldPath] | None = None
        for path in (problem.path, *problem.causes):
            for layer in self._layers:
                place = self._place(path, layer.patch)
                depth = len(place) if len(place) < len(path) else len(place) + 100
                if best is None or depth >= best[0]:
                    best = (depth, layer, place)
            if best is not None and best[0] >= 100:
                break
        assert best is not None, "called with at least one layer"
        return best[1], best[2]

    def _place(self, path: FieldPath, patch: Object) -> FieldPath:
        """Return a path of the merged pod as a path in a patch, as far as the patch contains it."""
        found: list[str | int] = []
        here: Any = patch
        there: Any = self._pod
        for step in path:
            there = there[step] if has_step(there, step) else None
            if isinstance(here, list) and isinstance(step, int):
                field = str(found[-1])
                place = self._index(field, here).get(_identity(field, there))
                if place is None:
                    break
                step = place
            elif not has_step(here, step):
                break
            here = here[step]
            found.append(step)
        return tuple(found)

    def _index(self, field: str, entries: list[Any]) -> dict[Any, int]:
        index = self._entries.get(id(entries))
        if index is None:
            index = {_identity(field, item): place for place, item in enumerate(entries)}
            self._entries[id(entries)] = index
        return index


def _identity(field: str, item: Any) -> str:
    """Return the identity of a list entry as text: its merge key, or the whole entry."""
    return json.dumps(key_of(field, item) or item, sort_keys=True, default=str)


def _host_paths(context: Context, layer: Layer) -> Iterator[PodProblem]:
    """Yield paths of nodes that a job may not mount. The platform's own patches may mount any."""
    if layer.owner is not None:
        return
    for place, path in strings_at(layer.patch, "volumes[].hostPath.path"):
        if path.startswith("/") and (forbidden := forbidden_host_path(path, context.settings)) is not None:
            yield PodProblem(place, *forbidden, code="GPU423")


def _set_visible_devices(context: Context, model: Job, pod: Object) -> None:
    """Set ``NVIDIA_VISIBLE_DEVICES=void`` on added containers without cards; remove it where a patch adds a card."""
    if "nvidia" not in context.settings.used_vendors:
        return
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        env: list[Object] = container.get("env", [])
        own = next((item for item in env if item["name"] == VISIBLE_DEVICES), None)
        if container["name"] == MAIN_CONTAINER and model.resources.gpu == 0 and has_nvidia(container):
            env = [item for item in env if item is not own or item.get("value") != "void"]
        elif container["name"] != MAIN_CONTAINER and own is None and not has_nvidia(container):
            env = no_visible_devices(context) + env
        else:
            continue
        container["env"] = env
        if not env:
            del container["env"]
