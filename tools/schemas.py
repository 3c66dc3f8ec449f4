"""Writes what is derived from the models: ``make schemas`` and ``make docs``.

``schemas/KIND.json``
    the JSON Schema of each kind, and ``schemas/gpuctl.json`` of all of them, for editors.
``docs/reference.md``
    the field reference: a heading for each kind, a table for each block.

With ``--check`` nothing is written, and the exit code is 1 when a file is not what this tool would write.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "compiler"))

from gpuctl.language.fields import Block  # noqa: E402
from gpuctl.language.kinds import KINDS, model_of  # noqa: E402
from gpuctl.language.reference import Entry, fields_of, in_yaml  # noqa: E402
from gpuctl.language.schema import combined_schema, schema_of, to_json  # noqa: E402

INTRODUCTION = """\
# Field reference

<!-- Written by tools/schemas.py from the models in compiler/gpuctl/language: `make docs`. -->

Every field of every kind of document. `gpuctl explain training.resources.gpu-type` prints the same in a terminal, and
`gpuctl schema` the JSON Schema for an editor.

- Keys are matched without `-`, `_` and case: `gpu-type`, `gpu_type` and `gpuType` are one key. The tables have the
  canonical spelling, which `gpuctl fmt` writes. Names that you invent (nodes, users, labels, variables) are taken as
  they are.
- Text is taken exactly as written: `2e-5`, `yes` and `012` need no quotes.
- A platform's `defaults` fill in what a document leaves out, also fields that are required here.
- A duration is a sum of `d`, `h`, `m` and `s`: `30s`, `12h`, `1h30m`. A Kubernetes quantity is a number with an
  optional suffix: `500m`, `2`, `128Gi`.

Kinds: {kinds}
"""


def outputs() -> dict[Path, str]:
    """Every file that this tool writes, with its text."""
    files = {ROOT / "schemas" / f"{kind}.json": to_json(schema_of(kind)) for kind in KINDS}
    files[ROOT / "schemas" / "gpuctl.json"] = to_json(combined_schema())
    files[ROOT / "docs" / "reference.md"] = reference()
    return files


def reference() -> str:
    """The field reference in Markdown."""
    kinds = ", ".join(f"[{kind}](#{kind})" for kind in KINDS)
    parts = [INTRODUCTION.format(kinds=kinds)]
    documented: dict[type[Block], str] = {}
    for kind in KINDS:
        parts.append(f"## {kind}\n\n{' '.join((model_of(kind).__doc__ or '').split())}\n")
        parts.append(_table(fields_of(kind), documented))
        parts += _blocks(kind, fields_of(kind), documented)
    return "\n".join(parts)


def _blocks(kind: str, fields: Sequence[Entry], documented: dict[type[Block], str]) -> Iterator[str]:
    """The sections of the blocks below some fields; a block that several places share has one section."""
    for entry in fields:
        block = entry.inner
        if block is None or documented[block] != _heading(entry):
            continue
        below = fields_of(kind, entry.path)
        yield f"### {_heading(entry)}\n\n{' '.join((block.__doc__ or '').split())}\n"
        yield _table(below, documented)
        yield from _blocks(kind, below, documented)


def _table(fields: Sequence[Entry], documented: dict[type[Block], str]) -> str:
    rows = ["| field | type | default | description | example |", "| --- | --- | --- | --- | --- |"]
    for entry in fields:
        default = "required" if entry.required else _code(entry.default_text) if entry.default_text else ""
        examples = ", ".join(_code(in_yaml(example, entry.form)) for example in entry.examples)
        cells = (_code(entry.key), _type(entry, documented), default, entry.description, examples)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _type(entry: Entry, documented: dict[type[Block], str]) -> str:
    """The type in words, with a link to the section of the block that it holds."""
    if entry.form.partial is not None:
        return entry.type_text.replace(entry.form.partial, f"[{entry.form.partial}](#{entry.form.partial})")
    if entry.inner is None:
        return entry.type_text
    heading = documented.setdefault(entry.inner, _heading(entry))
    return re.sub(r"\bblocks?\b", lambda match: f"[{match[0]}](#{_anchor(heading)})", entry.type_text, count=1)


def _heading(entry: Entry) -> str:
    """The path of the block's fields without the field: ``training.storage.workdirs[]``."""
    below = fields_of(entry.kind, entry.path)[0]
    return f"{entry.kind}.{below.dotted.rpartition('.')[0]}"


def _anchor(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _code(text: str) -> str:
    return f"`{text}`"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; the exit code."""
    parser = argparse.ArgumentParser(description="Write the JSON Schemas and the field reference.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is out of date")
    check = parser.parse_args(arguments).check
    files = outputs()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    extra = sorted(set((ROOT / "schemas").glob("*.json")) - set(files))
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what the models say: run `make schemas`", file=sys.stderr)
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
