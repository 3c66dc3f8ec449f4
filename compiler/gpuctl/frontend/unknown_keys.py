"""What to write instead of a key that a block does not have."""

from __future__ import annotations

from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.frontend.shapes import ModelShape, kind_shape
from gpuctl.frontend.tree import SCALAR, YamlNode
from gpuctl.language.spelling import fold, nearest
from gpuctl.language.wording import shorten


def torn_text(source: str, node: YamlNode, key: YamlNode, value: YamlNode) -> str | None:
    """The hint for ``{value: a,b}``, where the comma was meant as part of the text."""
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


def what_is_known(text: str, path: FieldPath, shape: ModelShape, kind: str) -> str:
    """The hint for a key that the block at ``path`` has not: a near one, its right place, or all that there are."""
    if fold(text) == "valuefrom" and "secret" in shape.keys:
        return "write `secret: NAME` and `key: KEY` for a Secret; other sources go into `podPatch`"
    if path[-1:] == ("pvc",) and fold(text) in ("name", "claimname", "pvc"):
        return "did you mean `claim`?"
    hint = None
    close = nearest(text, shape.keys)
    if close is not None and fold(close) != fold(text):
        hint = f"did you mean `{close}`?"
    home = _home_of(text, path, kind)
    if home is not None and (hint is None or fold(text) in home[1]):
        return f"`{home[2]}` belongs in `{home[0]}`" if home[0] else f"`{home[2]}` belongs at the top of the document"
    return hint or f"the fields here are {', '.join(shape.keys)}"


def _home_of(text: str, path: FieldPath, kind: str) -> tuple[str, frozenset[str], str] | None:
    """The block of a kind that does have a key: (block, its folded keys, canonical key)."""
    top = kind_shape(kind)
    folded = fold(text)
    if path and folded in top.fields:
        return ("", frozenset({folded}), top.fields[folded][0])
    for block, shape in top.fields.values():
        if isinstance(shape, ModelShape) and folded in shape.fields and (block,) != path[:1]:
            return (block, frozenset(shape.fields), shape.fields[folded][0])
    return None
