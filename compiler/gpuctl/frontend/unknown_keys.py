"""Hints for a key that a block does not have."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuctl.frontend.chinese_names import CHINESE_NAMES
from gpuctl.frontend.diagnostics import FieldPath, format_path
from gpuctl.frontend.field_shapes import ModelShape, Shape, kind_shape
from gpuctl.frontend.foreign_fields import (
    CONTAINER_FIELDS,
    INSTEAD,
    INSTEAD_ANYWHERE,
    OTHER_NAMES,
    OWN_FIELDS,
    POD_FIELDS,
    SAME_FIELDS,
    write_line,
)
from gpuctl.frontend.scalars import flow_text, gpus_of
from gpuctl.frontend.spans import value_at
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, OptionNode, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.kinds import WORKLOADS
from gpuctl.language.names import is_env_name
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.spelling import fold, nearest

_CARDS = ("gpu", "accelerators")
"""Fields of other tools whose value may be the type of the GPUs with their number."""
_COUNTS = frozenset({"gpu", "gpus", "gpunumber", "gpunum"})
"""Folded names for the number of a node's GPUs."""
_MISSPELT = 0.8
"""Similarity of a key that can only be a misspelt form of another."""


class MeantKey(NamedTuple):
    """The key of the block that an unknown one stands for."""

    name: str


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


def joined_text_hint(text: str, shape: Shape | None) -> Sentence | None:
    """Return the hint for ``name:demo``, ``name = demo`` or several such lines in place of a block, else None."""
    pairs = re.findall(r"([A-Za-z][\w-]*)\s*[:=]\s*(\S+)(?:\s+|\Z)", text)
    is_all = re.fullmatch(r"(?:[A-Za-z][\w-]*\s*[:=]\s*\S+(?:\s+|\Z))+", text) is not None
    if not is_all or not isinstance(shape, ModelShape) or any(shape.find(name) is None for name, _ in pairs):
        return None
    return say("write {lines}", lines=[f"`{name}: {shorten(value)}`" for name, value in pairs])


def unknown_key_hint(
    key: YamlNode, value: YamlNode, block: YamlNode, root: YamlNode, path: FieldPath, shape: ModelShape, kind: str
) -> Sentence | MeantKey:
    """Return the key that was meant in place of one that the block at ``path`` does not have, or another hint.

    The hint names a similar key, the block that has this key, the equivalent in another block or ``podPatch``, or all
    keys of the block. It says if the field that it names is written already.

    :param root: the document.
    """
    text = CHINESE_NAMES.get(key.value, key.value)
    folded = fold(text)
    # Keys of a profile or an option are not beside those of the document that they are merged into.
    beside = {fold(other.value) for other, _ in block.value if _is_in(other, block) == _is_in(key, block)}
    if folded in ("valuefrom", "secretkeyref", "configmapkeyref") and "secret" in shape.keys:
        return say("write `secret: NAME` and `key: KEY`, `configMap: NAME` and `key: KEY`, or `fieldRef: FIELD`")
    top = ""
    if kind == "platform" and path[:1] == ("defaults",) and len(path) > 1:
        # A partial document of another kind.
        top = format_path(path[:2])
        root, kind, path = value_at(root, path[:2]) or root, str(path[1]), path[2:]
    if text != key.value and folded in shape.fields:
        return _suggest(shape.fields[folded][0], beside)
    place = ".".join(part for part in path if isinstance(part, str))
    if place == "job.sweep":
        return say("the parameters of a sweep belong in `sweep` at the top of the document")
    meant = OTHER_NAMES.get(place, {}).get(folded)
    if folded in _COUNTS and value.kind == SCALAR and value.value.isdecimal():
        meant = meant or "gpu-count"
    if meant is not None and fold(meant) in shape.fields:
        return _suggest(meant, beside)
    if (instead := INSTEAD.get((place, folded))) is not None:
        return say(instead)
    if (variable := _variable(text, value, path)) is not None:
        return say("write `{text}`", text=variable)
    if path[-1:] == ("on",) and folded in ("preempt", "evict", "prestop", "term", "sigterm"):
        if "stop" in beside:
            return say("remove it: Kubernetes runs `stop` before it ends a pod for any reason, preemption too")
        return say("did you mean `stop`? Kubernetes runs it before it ends a pod for any reason, preemption too")
    hint: Sentence | MeantKey | None = None
    close = nearest(text, shape.keys)
    if close is not None and (fold(close) not in beside or close == nearest(text, [close], _MISSPELT)):
        hint = _suggest(close, beside)
    home = _home_of(text, path, kind)
    if home is not None and (hint is None or folded in home[1]):
        return _belongs(home[2], home[0], root, top)
    if kind in WORKLOADS and value.kind == SCALAR and SAME_FIELDS.get(folded, folded) in _CARDS:
        gpus = gpus_of(value.value)
        if gpus is not None and not _is_written(root, "resources", "gpu"):
            is_in_block = path == ("resources",)
            return say("write {text}", text=gpus) if is_in_block else say("write {text} in `resources`", text=gpus)
    same = "secret" if folded.startswith("secret") else SAME_FIELDS.get(folded)
    if same is not None and fold(same) in shape.fields:
        return _suggest(same, beside)
    if kind in WORKLOADS:
        if (instead := INSTEAD_ANYWHERE.get(folded)) is not None:
            return say(instead)
        own = OWN_FIELDS.get(folded)
        is_here = own is not None and (not own.kinds or kind in own.kinds)
        if own is not None and path[:1] == (own.key,):
            own = None
        elif own is not None and is_here and _is_written(root, own.place, own.key):
            return _belongs(own.key, own.place, root, top)
        hint = (own.hint(kind, top) if own is not None else None) or _pod_patch(text, value, top) or hint
    return hint or say("the fields here are {names}", names=list(shape.keys))


def _variable(text: str, value: YamlNode, path: FieldPath) -> str | None:
    """Return the form for a variable that is written as a field of ``environment`` or of an entry of ``env``."""
    if value.kind != SCALAR or value.is_null:
        return None
    shown = flow_text(shorten(value.value))
    if path == ("environment",) and re.fullmatch(r"(?a)[A-Z][A-Z0-9_]*", text):
        return f"env: {{{text}: {shown}}}"
    if path[-2:-1] == ("env",) and isinstance(path[-1], int) and is_env_name(text) and fold(text) != "valuefrom":
        return f"{{name: {text}, value: {shown}}}"
    return None


def _pod_patch(text: str, value: YamlNode, top: str) -> Sentence | None:
    """Return the hint to set a field of Kubernetes' PodSpec or Container with ``podPatch``; None for any other key.

    :param top: the block of defaults that takes the place of a document; "" in a document.
    """
    folded = fold(text)
    shown = value.value if value.kind == SCALAR and not value.is_null else "..."
    if value.kind != SCALAR:
        shown = "[...]" if value.kind == SEQUENCE else "{...}"
    if folded in POD_FIELDS:
        return write_line(f"podPatch: {{{POD_FIELDS[folded]}: {shorten(shown)}}}", top)
    if folded in CONTAINER_FIELDS:
        line = f"podPatch: {{containers: [{{name: main, {CONTAINER_FIELDS[folded]}: {shorten(shown)}}}]}}"
        return write_line(line, top)
    return None


def _is_in(key: YamlNode, block: YamlNode) -> bool:
    """Return True if a key is written inside of the block's own text."""
    return not isinstance(key, OptionNode) and block.start <= key.start < block.end


def _belongs(field: str, block: str, root: YamlNode, top: str) -> Sentence:
    """Return the hint that a field belongs in another block, or at the top of the document.

    :param top: the block of defaults that takes the place of a document; "" in a document.
    """
    if block and not top and (empty := value_at(root, (block,))) is not None and empty.is_null:
        return say("indent it: it belongs below `{block}:`", block=block)
    belongs = say("`{field}` belongs at the top of the document", field=field)
    if block or top:
        belongs = say("`{field}` belongs in `{block}`", field=field, block=block or top)
    return say("{place}, which has it already", place=belongs) if _is_written(root, block, field) else belongs


def _suggest(name: str, beside: set[str]) -> Sentence | MeantKey:
    """Return a key of the block that was meant, or the hint that it is written already."""
    if fold(name) in beside:
        return say("`{name}` is written already: keep one", name=name)
    return MeantKey(name)


def _is_written(root: YamlNode, block: str, key: str) -> bool:
    """Return True if a block has a key whose value cannot take a further field."""
    written = value_at(root, (block, key) if block else (key,))
    return written is not None and written.kind != MAPPING


def _home_of(text: str, path: FieldPath, kind: str) -> tuple[str, frozenset[str], str] | None:
    """Return the block of a kind that has a key, as (block, its folded keys, canonical key); None without one."""
    top = kind_shape(kind)
    folded = fold(text)
    is_named = folded == "name" and any(isinstance(part, int) for part in path)
    if is_named or folded in ("path", "secret"):
        # Too general: what is meant is not the block that happens to have such a key.
        return None
    if path and folded in top.fields:
        return ("", frozenset({folded}), top.fields[folded][0])
    for block, shape in top.fields.values():
        if isinstance(shape, ModelShape) and folded in shape.fields and (block,) != path[:1]:
            return (block, frozenset(shape.fields), shape.fields[folded][0])
    return None
