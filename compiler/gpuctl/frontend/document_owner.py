"""Decides who a document belongs to: gpuctl (with a mistake in its ``kind``), another tool, or unclear.

Kubernetes manifests have ``apiVersion`` and ``kind``; a gpuctl document has no ``apiVersion``. A document that is
skipped counts as deleted for a build or a prune, so a near miss of a gpuctl document is an error.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterator
from enum import Enum

from gpuctl.frontend.chinese_names import CHINESE_NAMES
from gpuctl.frontend.yaml_tree import YamlNode
from gpuctl.language.kinds import ALIASES, KINDS, VERSION
from gpuctl.language.spelling import fold, nearest

_NAMES = (*KINDS, *ALIASES)
_NEAR = 0.75
"""Similarity below which ``Role`` and ``source`` would be taken for gpuctl kinds."""
_KUSTOMIZATIONS = frozenset({"kustomization.yaml", "kustomization.yml"})
_POOL = frozenset({"version", "pool", "metadata", "nodes", "quota"})
_QUOTA = frozenset({"version", "quota", "metadata", "users", "namespace", "default"})
_GPU_FIELDS = frozenset({"gputype", "gpushare", "gpuvendor", "pool"})


class DocumentOwner(Enum):
    """The owner of a document that has no gpuctl kind."""

    GPUCTL = "gpuctl, with a mistake"
    OTHER_TOOL = "another tool"
    UNCLEAR = "unclear"


def document_owner(root: YamlNode, file: str) -> DocumentOwner:
    """Return the owner of a document whose ``kind`` is not exactly a gpuctl kind. ``file``: the name of its source."""
    if root.kind != "mapping":
        items = root.value if root.kind == "list" else []
        return DocumentOwner.GPUCTL if any(_is_in_list(item) for item in items) else DocumentOwner.UNCLEAR
    fields = {fold(key.value): value for key, value in root.value}
    kind = fields.get("kind")
    if _has_gpuctl_blocks(fields):
        return DocumentOwner.GPUCTL
    if _is_text(fields.get("apiversion")) and _is_text(kind):
        return DocumentOwner.OTHER_TOOL
    if kind is None:
        if misspelt_kind(root) is not None:
            return DocumentOwner.GPUCTL
        return DocumentOwner.OTHER_TOOL if posixpath.basename(file) in _KUSTOMIZATIONS else DocumentOwner.UNCLEAR
    return DocumentOwner.GPUCTL if any(near_kind(text) for text in _texts(kind)) else DocumentOwner.UNCLEAR


def near_kind(text: str) -> str | None:
    """Return the kind that a misspelt text probably means: other case, plural, lookalike letters, typing errors."""
    plain = _folded(text)
    word = "".join(letter for letter in plain if not letter.isspace() and letter not in "-_")
    for name in _NAMES:
        if word in (name, f"{name}s", f"{name}es") or _looks_like(word, name):
            return name
    return nearest(word, _NAMES, _NEAR)


def misspelt_kind(root: YamlNode) -> YamlNode | None:
    """Return the key that is a misspelt ``kind``, in a document without ``kind``; None if there is no such key."""
    key: YamlNode
    for key, value in root.value:
        word = _folded(key.value).strip()
        is_near = (
            CHINESE_NAMES.get(word, word) == "kind"
            or _looks_like(word, "kind")
            or nearest(word, ("kind",), _NEAR) is not None
        )
        if is_near and any(near_kind(text) for text in _texts(value)):
            return key
    return None


def _folded(text: str) -> str:
    """Return a text in one case, with the Unicode forms of a letter unified."""
    return unicodedata.normalize("NFKC", text).casefold()


def _looks_like(word: str, name: str) -> bool:
    """Return True if a word differs from a name only in lookalike letters of other alphabets."""
    pairs = list(zip(word, name, strict=False))
    return (
        len(word) == len(name)
        and any(letter == other for letter, other in pairs)
        and all(letter == other or not letter.isascii() for letter, other in pairs)
    )


def _is_in_list(item: YamlNode) -> bool:
    if item.kind != "mapping":
        return False
    kind = next((value for key, value in item.value if fold(key.value) == "kind"), None)
    return _is_text(kind) and near_kind(kind.value) is not None if kind is not None else False


def _has_gpuctl_blocks(fields: dict[str, YamlNode]) -> bool:
    """Return True if a document's blocks identify it as gpuctl's, whatever its kind."""
    version = fields.get("version")
    if version is not None and version.kind == "scalar" and version.value == VERSION:
        return True
    job, environment = _keys(fields.get("job")), _keys(fields.get("environment"))
    if "image" in environment or ("name" in job and environment):
        return True
    if "name" in job and _GPU_FIELDS & _keys(fields.get("resources")):
        return True
    others = fields.keys() - {"kind"}
    named = any("name" in _keys(fields.get(block)) for block in ("pool", "quota", "metadata"))
    filled = any(_keys(fields.get(block)) for block in ("pool", "quota", "nodes", "users", "namespace"))
    return named and filled and (others <= _POOL or others <= _QUOTA)


def _keys(node: YamlNode | None) -> set[str]:
    return {fold(key.value) for key, _ in node.value} if node is not None and node.kind == "mapping" else set()


def _is_text(node: YamlNode | None) -> bool:
    return node is not None and node.kind == "scalar" and not node.is_null


def _texts(node: YamlNode) -> Iterator[str]:
    """Yield the texts in a value, at any depth."""
    nodes = [node]
    while nodes:
        here = nodes.pop()
        if here.kind == "scalar":
            yield here.value
        else:
            nodes += here.value if here.kind == "list" else [part for pair in here.value for part in pair]
