"""Write the files that are derived from the models: ``make schemas`` and ``make docs``.

``schemas/KIND.json``
    the JSON Schema of each kind, and ``schemas/gpuctl.json`` of all of them, for editors.
``docs/reference.md``, ``docs/reference.zh-CN.md``
    the field reference: a heading for each kind, a table for each block. The English texts come from the models, the
    Chinese ones from ``gpuctl/language/reference_zh_CN.yaml``, a list of ``en`` and ``zh``.

A text without a translation stays English in the Chinese reference; ``tools/translations.py`` lists these. With
``--check`` nothing is written, and the exit code is 1 if a file differs from what this tool would write.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "compiler"))

from gpuctl.language.fields import Block  # noqa: E402
from gpuctl.language.json_schema import combined_schema, schema_of, to_json  # noqa: E402
from gpuctl.language.kinds import KINDS, model_of  # noqa: E402
from gpuctl.language.reference import FieldEntry, description_of, fields_of, in_yaml  # noqa: E402
from gpuctl.language.translation_files import chinese_reference  # noqa: E402

Words = Callable[[str], str]
"""A function that translates an English text of the reference."""

INTRODUCTION = """\
# Field reference

{switch}

<!-- Written by tools/schemas.py from the models in compiler/gpuctl/language: `make docs`. -->

Every field of every kind of document. `gpuctl explain training.resources.gpu-type` prints the same in a terminal
(`--lang zh`: in Chinese), and `gpuctl schema` the JSON Schema for an editor.

- Keys are matched without `-`, `_` and case: `gpu-type`, `gpu_type` and `gpuType` are one key. The tables have the
  canonical spelling, which `gpuctl fmt` writes. Names that you choose (nodes, users, labels, variables) are not
  changed.
- Text stays exactly as written: `2e-5`, `yes` and `012` need no quotes.
- A platform's `defaults` fill in fields that a document omits, including fields that are required here.
- A duration is a sum of `d`, `h`, `m` and `s`: `30s`, `12h`, `1h30m`. A Kubernetes quantity is a number with an
  optional suffix: `500m`, `2`, `128Gi`.

Kinds: {kinds}
"""

ENGLISH = "English | [简体中文](reference.zh-CN.md)"
CHINESE = "[English](reference.md) | 简体中文"


class Translation:
    """The Chinese texts of the reference. Call it with an English text.

    A text without a translation is returned in English. After the reference was written, :attr:`problems` lists these
    texts and the unused translations.
    """

    def __init__(self, pairs: Sequence[dict[str, str]]) -> None:
        self._texts = {pair["en"]: pair["zh"] for pair in pairs}
        self._twice = [text for text, times in Counter(pair["en"] for pair in pairs).items() if times > 1]
        self._missing: dict[str, None] = {}
        self._unused = dict.fromkeys(self._texts)

    def __call__(self, text: str) -> str:
        if text not in self._texts:
            self._missing[text] = None
        self._unused.pop(text, None)
        return self._texts.get(text, text)

    @property
    def problems(self) -> list[str]:
        """A sentence for each text with no translation or with two, and for each unused translation."""
        return [
            *(f"no translation of: {text}" for text in self._missing),
            *(f"two translations of: {text}" for text in self._twice),
            *(f"a translation of a text that is no longer in the reference: {text}" for text in self._unused),
        ]


def outputs() -> tuple[dict[Path, str], Translation]:
    """Return the content of every file that this tool writes, and the translation after its use."""
    files = {ROOT / "schemas" / f"{kind}.json": to_json(schema_of(kind)) for kind in KINDS}
    files[ROOT / "schemas" / "gpuctl.json"] = to_json(combined_schema())
    files[ROOT / "docs" / "reference.md"] = reference()
    chinese = Translation(chinese_reference())
    files[ROOT / "docs" / "reference.zh-CN.md"] = reference(CHINESE, chinese)
    return files, chinese


def reference(switch: str = ENGLISH, words: Words = str) -> str:
    """Return the field reference in Markdown: in English, or in the language that ``words`` translates to.

    :param switch: the line with the links between the languages.
    """
    introduction = _introduction(words)
    kinds = words(", ").join(f"[{kind}](#{kind})" for kind in KINDS)
    parts = [introduction.format(switch=switch, kinds=kinds)]
    documented: dict[type[Block], str] = {}
    for kind in KINDS:
        parts.append(f"## {kind}\n\n{words(description_of(model_of(kind)))}\n")
        parts.append(_table(fields_of(kind), documented, words))
        parts += _blocks(kind, fields_of(kind), documented, words)
    return "\n".join(parts)


def _introduction(words: Words) -> str:
    """Return the introduction. In a translation a paragraph is one line, because a line break in Chinese is shown as a
    blank."""

    def translated(found: re.Match[str]) -> str:
        english = " ".join(found["text"].split())
        text = words(english)
        return found["mark"] + (found["text"] if words is str else text)

    paragraph = r"^(?P<mark>(?:# |- )?)(?P<text>[^\s#<{-].*(?:\n(?!- ).+)*)"
    return re.sub(paragraph, translated, INTRODUCTION, flags=re.MULTILINE)


def _blocks(kind: str, fields: Sequence[FieldEntry], documented: dict[type[Block], str], words: Words) -> Iterator[str]:
    """Yield the sections of the blocks below some fields; a block that is used in several places has one section."""
    for entry in fields:
        block = entry.inner
        if block is None or documented[block] != _heading(entry):
            continue
        below = fields_of(kind, entry.path)
        yield f"### {_heading(entry)}\n\n{words(description_of(block))}\n"
        yield _table(below, documented, words)
        yield from _blocks(kind, below, documented, words)


def _table(fields: Sequence[FieldEntry], documented: dict[type[Block], str], words: Words) -> str:
    heading = [words(column) for column in ("field", "type", "default", "description", "example")]
    rows = [f"| {' | '.join(heading)} |", "| --- | --- | --- | --- | --- |"]
    for entry in fields:
        default = words("required") if entry.required else _code(entry.default_text) if entry.default_text else ""
        examples = ", ".join(_code(in_yaml(example, entry.form)) for example in entry.examples)
        cells = (_code(entry.key), _type(entry, documented, words), default, words(entry.description), examples)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _type(entry: FieldEntry, documented: dict[type[Block], str], words: Words) -> str:
    """Return the type in words, with a link to the section of its block."""
    text = words(entry.type_text)
    if entry.form.partial is not None:
        return text.replace(entry.form.partial, f"[{entry.form.partial}](#{entry.form.partial})")
    if entry.inner is None:
        return text
    heading = documented.setdefault(entry.inner, _heading(entry))
    return re.sub(r"\bblocks?\b|配置块", lambda match: f"[{match[0]}](#{_anchor(heading)})", text, count=1)


def _heading(entry: FieldEntry) -> str:
    """Return the path of a block's fields, without the field: ``training.storage.workdirs[]``."""
    below = fields_of(entry.kind, entry.path)[0]
    return f"{entry.kind}.{below.dotted.rpartition('.')[0]}"


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub generates for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _code(text: str) -> str:
    return f"`{text}`"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the JSON Schemas and the field reference.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    check = parser.parse_args(arguments).check
    files, _ = outputs()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    extra = sorted(set((ROOT / "schemas").glob("*.json")) - set(files))
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is out of date: run `make schemas`", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
    for path in extra:
        if check:
            print(f"{path.relative_to(ROOT)} belongs to no kind: remove it", file=sys.stderr)
        else:
            path.unlink()
    return 1 if check and (stale or extra) else 0


if __name__ == "__main__":
    sys.exit(main())
