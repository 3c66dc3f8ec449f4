"""Merges the YAML tree of a part of a document into the document's tree."""

from __future__ import annotations

from gpuctl.frontend.exclusive_fields import FieldNames
from gpuctl.frontend.field_shapes import ModelShape, Shape, mapping_shape, value_shape
from gpuctl.frontend.spans import child
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, YamlNode
from gpuctl.language.environment_block import VariableSource
from gpuctl.language.spelling import fold


def merged_trees(base: YamlNode, over: YamlNode, shape: Shape | None) -> YamlNode:
    """Return ``base`` with the values of ``over``.

    Mappings are merged, variables of ``env`` by name; any other value is replaced.

    :param shape: the shape of both.
    """
    if base.kind != MAPPING or over.kind != MAPPING:
        return over
    shape = mapping_shape(shape)
    known = shape if isinstance(shape, ModelShape) else None
    if known is not None and known.model is VariableSource and _source(over) not in (set(), _source(base)):
        return over
    pairs: list[tuple[YamlNode, YamlNode]] = list(base.value)
    places = {_folded(key, known): index for index, (key, _) in reversed(list(enumerate(pairs)))}
    seen: set[str] = set()
    for key, value in over.value:
        name = _folded(key, known)
        place = places.get(name)
        # Two spellings of one key stay two keys, which the binder reports.
        if place is None or name in seen:
            pairs.append((key, value))
            continue
        seen.add(name)
        own_key, own = pairs[place]
        if name == "env" and SEQUENCE in (own.kind, value.kind):
            merged = _merged_variables(own, value)
        else:
            merged = merged_trees(own, value, value_shape(shape, key.value))
        pairs[place] = (key if merged is value else own_key, merged)
    return base.with_value(pairs)


def _source(variable: YamlNode) -> set[str]:
    """Return the keys of a variable, folded, without its ``key``, which belongs to one source."""
    return {fold(key.value) for key, _ in variable.value} - {"key"}


def without_field(node: YamlNode, path: FieldNames) -> YamlNode:
    """Return a tree without the field at a path, and without the blocks that are empty then."""
    if node.kind != MAPPING:
        return node
    name, *rest = path
    pairs = []
    for key, value in node.value:
        if fold(key.value) == fold(name):
            value = without_field(value, tuple(rest)) if rest else None
            if value is None or value.value == []:
                continue
        pairs.append((key, value))
    return node.with_value(pairs)


def _folded(key: YamlNode, shape: ModelShape | None) -> str:
    """Return the name of a key: all spellings of a key of the language are one."""
    return fold(key.value) if shape is not None else key.value


def _merged_variables(base: YamlNode, over: YamlNode) -> YamlNode:
    """Return variables merged by name, as a list of which at least one of the two is written.

    The entries of a mapping become ``{name, value}``, or ``{name, secret, key}``.
    """
    own, others = _variables(base), _variables(over)
    if own is None or others is None:
        return over
    names = {name for name, _ in others if name is not None}
    kept = [entry for name, entry in own if name not in names]
    listed = base if base.kind == SEQUENCE else over
    return listed.with_value([*kept, *(entry for _, entry in others)])


def _variables(node: YamlNode) -> list[tuple[str | None, YamlNode]] | None:
    """Return each variable with its name, as an entry of a list; None if the value is neither a list nor a mapping."""
    if node.kind == MAPPING:
        return [(key.value, _as_entry(key, value)) for key, value in node.value]
    if node.kind != SEQUENCE:
        return None
    found = ((child(entry, "name"), entry) for entry in node.value)
    return [(name[1].value if name is not None and name[1].kind == SCALAR else None, entry) for name, entry in found]


def _as_entry(key: YamlNode, value: YamlNode) -> YamlNode:
    def word(text: str, at: YamlNode) -> YamlNode:
        node = at.with_value(text)
        node.kind = SCALAR
        return node

    pairs = [(word("name", key), key)]
    if value.kind == MAPPING:
        return value.with_value([*pairs, *value.value])
    entry = key.with_value([*pairs, (word("value", value), value)])
    entry.kind = MAPPING
    return entry
