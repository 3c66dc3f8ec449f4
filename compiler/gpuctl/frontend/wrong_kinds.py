"""Reports values of the wrong kind, such as a text in place of a list, with the value as the field takes it."""

from __future__ import annotations

from gpuctl.frontend.command_advice import advise_args, advise_command, flow_list, unfolded
from gpuctl.frontend.diagnostics import FieldPath, format_path
from gpuctl.frontend.field_shapes import (
    MapShape,
    ModelShape,
    ScalarShape,
    Shape,
    UnionShape,
    mapping_shape,
    value_shape,
)
from gpuctl.frontend.findings import Findings
from gpuctl.frontend.scalars import MISFIT, as_mapping, first_required, flow_text, mapping_of, read_scalar
from gpuctl.frontend.spans import column_of, texts_at
from gpuctl.frontend.unknown_keys import joined_text_hint
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, SEQUENCE, Chunk, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import fold

_ARTICLES = {SCALAR: Template("a single value"), SEQUENCE: Template("a list"), MAPPING: Template("a mapping")}
_WORDS = (("command",), ("args",))
"""Lists whose items are the words of a command."""


def report_wrong_kind(
    findings: Findings,
    node: YamlNode,
    key: YamlNode | None,
    path: FieldPath,
    expected: str | tuple[str, ...],
    shape: Shape | None = None,
) -> None:
    """Report that a field has no value, or not the ``expected`` kind of value, or one of several kinds: a scalar, a
    list or a mapping.

    :param shape: the shape of the field.
    """
    field = field_name(path)
    if node.is_null:
        advice = say('give it a value, remove the line, or quote it ("null") if it is text')
        if expected == SEQUENCE:
            advice = say("write `[]`, or remove the line")
        elif expected == MAPPING:
            advice = say("fill it, or remove the line")
            if len(path) == 1 and _is_followed_by_own_field(findings.root, node, shape):
                advice = say("indent the lines below it that belong to it")
        findings.at_node("GPU205", say("{field} has no value", field=field), node, path, advice, key=key)
        return
    hint: Sentence | None = None
    if expected == SEQUENCE and node.kind == SCALAR:
        hint = _as_list(findings, node, path, shape)
    elif expected == SEQUENCE and path[-1:] == ("args",) and (options := _options(node)):
        hint = say("write a list: {words}", words=flow_list(options))
    elif expected == SEQUENCE:
        hint = _as_entries(findings.chunk, node, shape)
    elif expected == MAPPING:
        if node.kind == SCALAR:
            hint = joined_text_hint(node.value, shape) or as_mapping(node.value, path, shape)
        else:
            hint = _as_block(node, shape)
        hint = hint or say("write `key: value` lines below it")
    elif node.kind == SCALAR:
        hint = as_mapping(node.value, path, shape)
        if hint is None and isinstance(value_shape(shape, 0), ScalarShape):
            hint = say("write a list: {words}", words=flow_list([node.value]))
    else:
        hint = _as_key(node, path) or _as_value(node, path, shape) or _as_text(findings.chunk, node, path)
        if hint is None and path[:1] == ("sweep",):
            hint = _values_of_sweep(findings.chunk, node, path)
        elif hint is None and node.kind == SEQUENCE and path[-1:] in (("nodes",), ("array",)):
            hint = say("write the number of them: {value}", value=len(node.value))
        if expected == SCALAR:
            hint = hint or say("write one value")
    kinds = (expected,) if isinstance(expected, str) else expected
    message = say(
        "{field} must be {kinds:or}, not {kind}",
        field=field,
        kinds=[say(_ARTICLES[kind]) for kind in kinds],
        kind=say(_ARTICLES[node.kind]),
    )
    findings.at_node("GPU202", message, node, path, hint, key=key)


def _is_followed_by_own_field(block: YamlNode, node: YamlNode, shape: Shape | None) -> bool:
    """Return True if the key after a value of a block is a field of the value, which lacks its indentation."""
    values = [value for _, value in block.value]
    place = next((index for index, value in enumerate(values) if value is node), len(values)) + 1
    return isinstance(shape, ModelShape) and place < len(values) and shape.find(block.value[place][0].value) is not None


def _as_list(findings: Findings, node: YamlNode, path: FieldPath, shape: Shape | None) -> Sentence:
    """Return the hint for a single value in place of a list."""
    field = path[-1] if path else ""
    if path[-2:] == ("on", "stop"):
        return advise_command(node.value, indent=None, field="stop")
    if field not in ("command", "args"):
        entry = mapping_of(node.value, (*path, 0), value_shape(shape, 0))
        if entry is None and isinstance(value_shape(shape, 0), ModelShape):
            return say("start each entry with `- `")
        return say("write a list: {words}", words=f"[{entry}]" if entry is not None else flow_list([node.value]))
    indent = column_of(findings.chunk, findings.root, path)
    text = unfolded(findings.chunk.written(node)) or node.value
    if field == "args":
        return advise_args(text, texts_at(findings.root, (*path[:-1], "command")), indent=indent)
    args = texts_at(findings.root, (*path[:-1], "args")) if path[-2:-1] == ("environment",) else []
    return advise_command(text, args=args, indent=indent)


def _as_entries(chunk: Chunk, node: YamlNode, shape: Shape | None) -> Sentence:
    """Return the hint for a mapping in place of a list of blocks: one of the blocks, or their names with the rest."""
    entry = mapping_shape(value_shape(shape, 0))
    first = first_required(entry)
    is_flow = chunk.written(node)[:1] == "{"
    if not node.value:
        return say("write `[]`, or remove the line")
    if not isinstance(entry, ModelShape) or first is None:
        return say("start each entry with `- `")
    if all(entry.find(key.value) for key, _ in node.value):
        text = f"[{chunk.written(node).strip()}]"
        return say("write a list: {words}", words=shorten(text)) if is_flow else say("start each entry with `- `")
    name = flow_text(node.value[0][0].value)
    if is_flow:
        return say("write a list: {words}", words=f"[{{{first.key}: {name}, ...}}, ...]")
    return say("start each entry with `- {text}`, and its other fields below", text=f"{first.key}: {name}")


def _as_key(node: YamlNode, path: FieldPath) -> Sentence | None:
    """Return the hint for the key of a label or an annotation that was split at its dots, as options split paths."""
    if path[-3:-1] not in (("job", "labels"), ("job", "annotations")):
        return None
    steps = [str(path[-1])]
    while node.kind == MAPPING and len(node.value) == 1:
        steps.append(node.value[0][0].value)
        node = node.value[0][1]
    if node.kind != SCALAR:
        return None
    written = f'{format_path(path[:-1])}."{".".join(steps)}"'
    return say("quote a key with dots: `{path}`", path=written)


def _as_value(node: YamlNode, path: FieldPath, shape: Shape | None) -> Sentence | None:
    """Return the hint for ``configMap: {name: NAME}`` as Kubernetes writes it, or a list of one value; else None."""
    single = shape.scalar if isinstance(shape, UnionShape) else shape
    is_one = node.kind == SEQUENCE and len(node.value) == 1 and node.value[0].kind == SCALAR
    if is_one and isinstance(single, ScalarShape) and read_scalar(node.value[0], single) is not MISFIT:
        text = shorten(flow_text(node.value[0].value))
        return say("write `{text}`", text=f"{path[-1]}: {text}" if isinstance(path[-1], str) else text)
    entries = node.value if node.kind == MAPPING else []
    if len(entries) != 1 or entries[0][1].kind != SCALAR or entries[0][1].is_null or path[-2:-1] in _WORDS:
        return None
    named = fold(entries[0][0].value) in ("name", "secretname", "claimname", "path")
    text = shorten(entries[0][1].value)
    return say("write `{text}`", text=f"{path[-1]}: {text}" if isinstance(path[-1], str) else text) if named else None


def _options(node: YamlNode) -> list[str]:
    """Return ``{lr: 2e-5}`` or ``{--lr: 2e-5}`` as arguments: ``--lr``, ``2e-5``; empty if a value is no text."""
    if any(value.kind != SCALAR for _, value in node.value):
        return []
    pairs = ((key.value, value.value) for key, value in node.value)
    return [word for key, value in pairs for word in (key if key.startswith("-") else f"--{key}", value) if word]


def _as_block(node: YamlNode, shape: Shape | None) -> Sentence | None:
    """Return the hint for a list in place of a block: entries that are its fields, or those of one of its lists."""
    if isinstance(shape, MapShape) and isinstance(shape.value, ModelShape):
        return _as_named_blocks(node, shape.value)
    if not isinstance(shape, ModelShape) or any(entry.kind != MAPPING for entry in node.value):
        texts = [entry.value for entry in node.value if entry.kind == SCALAR]
        is_paths = isinstance(shape, ModelShape) and "workdirs" in shape.keys and len(texts) == len(node.value)
        return say("write `{text}` above the list", text="workdirs:") if is_paths else None
    names = [key.value for entry in node.value for key, _ in entry.value]
    if all(shape.find(name) for name in names):
        return say("remove the `- ` before its fields")
    for key, listed in shape.fields.values():
        entry = value_shape(listed, 0)
        if isinstance(entry, ModelShape) and all(entry.find(name) for name in names):
            return say("write `{text}` above the list", text=f"{key}:")
    return None


def _as_named_blocks(node: YamlNode, shape: ModelShape) -> Sentence | None:
    """Return the hint for a list in place of a mapping of names to blocks; None if an entry has no name."""
    first = node.value[0] if node.value else None
    if first is not None and first.kind == SCALAR and not first.is_null:
        return say("write `{text}` with its fields below it, one for each entry", text=f"{flow_text(first.value)}:")
    if first is None or first.kind != MAPPING or not first.value:
        return None
    key, value = first.value[0]
    if value.kind == MAPPING and shape.find(key.value) is None:
        return say("remove the `- ` before its fields")
    if fold(key.value) == "name" and value.kind == SCALAR:
        return say("write `{text}` with its fields below it, one for each entry", text=f"{flow_text(value.value)}:")
    return None


def _values_of_sweep(chunk: Chunk, node: YamlNode, path: FieldPath) -> Sentence | None:
    """Return the hint for a parameter of a sweep as other tools describe it; None for a list."""
    if node.kind != MAPPING:
        return None
    values = next((value for key, value in node.value if key.value == "values"), None)
    if values is not None and values.kind == SEQUENCE and chunk.is_on_one_line(values):
        return say("write `{text}`", text=f"{path[-1]}: {shorten(chunk.written(values).strip())}")
    if path[-1] in ("parameters", "params", "hyperparameters"):
        return say("remove it: the parameters belong directly below `sweep`")
    return say("list its values, such as `{text}`: no values are drawn from a range", text=f"{path[-1]}: [1e-5, 2e-5]")


def _as_text(chunk: Chunk, node: YamlNode, path: FieldPath) -> Sentence | None:
    """Return the hint to quote an item such as ``echo a: b``, which YAML reads as a mapping; else None."""
    text = chunk.written(node).strip()
    if node.kind != MAPPING or text.startswith("{") or "\n" in text or len(node.value) != 1:
        return None
    if text.startswith("-") and path[-2:-1] in _WORDS and (words := _options(node)):
        return say("write two items: {words}", words=flow_list(words)[1:-1])
    return say("quote it, because of the `: `: {text}", text=flow_list([text])[1:-1])


def field_name(path: FieldPath) -> str:
    """Return the name of a field for messages."""
    return f"`{format_path(path[-2:] if path and isinstance(path[-1], int) else path[-1:])}`" if path else say("this")
