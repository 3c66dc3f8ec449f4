"""Ten thousand broken inputs: each yields objects or a diagnostic with a true position, never an exception."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuctl
from gpuctl.backend.emitter import emit_object
from gpuctl.cli.printers import text as text_printer
from gpuctl.frontend.diagnostics import Severity
from gpuctl.frontend.format import format_source
from gpuctl.frontend.source import lines_of
from properties.documents import seeds
from properties.readers import read_pyyaml

BATCHES = 20
PER_BATCH = 500
NOISE = [
    "\t",
    "\0",
    "\x07",
    "\x85",
    "\u2028",
    "\ufeff",
    "\r",
    "\n",
    " ",
    ":",
    "- ",
    "#",
    "'",
    '"',
    "{",
    "}",
    "[",
    "]",
    ",",
]
NOISE += [
    "&a ",
    "*a",
    "<<: *a",
    "!!int ",
    "|",
    ">",
    "%",
    "@",
    "`",
    "---\n",
    "...\n",
    "{{model.nmae}}",
    "{{",
    "中",
    "😀",
    "é",
]
VALUES = [
    "null",
    "~",
    "true",
    "yes",
    "-1",
    "0",
    "1e999",
    "9" * 40,
    "0x10",
    "[]",
    "{}",
    "[a]",
    "{a: b}",
    '""',
    "a b",
    "../..",
    "/",
]
VALUES += [
    "''",
    "2024-01-01",
    ".nan",
    "1_000",
    "99999999999",
    "128GB",
    "{{job.name}}",
    "{{job.nam}}",
    "*x",
    "&x y",
    "$$",
    "x" * 300,
]

Mutation = Callable[[random.Random, str], str]


def _lines(change: Callable[[random.Random, list[str]], None]) -> Mutation:
    def mutate(generator: random.Random, text: str) -> str:
        lines = text.split("\n")
        change(generator, lines)
        return "\n".join(lines)

    return mutate


def _delete(generator: random.Random, lines: list[str]) -> None:
    del lines[generator.randrange(len(lines))]


def _duplicate(generator: random.Random, lines: list[str]) -> None:
    line = generator.choice(lines)
    lines.insert(generator.randrange(len(lines)), line)


def _indent(generator: random.Random, lines: list[str]) -> None:
    index = generator.randrange(len(lines))
    lines[index] = generator.choice(
        ["  " + lines[index], lines[index].lstrip(), "\t" + lines[index], " " + lines[index]]
    )


def _replace_value(generator: random.Random, lines: list[str]) -> None:
    index = generator.randrange(len(lines))
    key, colon, _ = lines[index].partition(":")
    if colon:
        lines[index] = f"{key}: {generator.choice(VALUES)}"


def _misspell(generator: random.Random, lines: list[str]) -> None:
    index = generator.randrange(len(lines))
    line = lines[index]
    if len(line) > 3:
        place = generator.randrange(len(line) - 1)
        lines[index] = generator.choice(
            [
                line[:place] + line[place + 1 :],
                line[:place] + line[place + 1] + line[place] + line[place + 2 :],
                line.upper(),
            ]
        )


def _noise(generator: random.Random, text: str) -> str:
    place = generator.randrange(len(text) + 1)
    return text[:place] + generator.choice(NOISE) + text[place:]


def _truncate(generator: random.Random, text: str) -> str:
    return text[: generator.randrange(len(text) + 1)]


def _splice(generator: random.Random, text: str) -> str:
    other = generator.choice(SEEDS)
    return text[: generator.randrange(len(text) + 1)] + other[generator.randrange(len(other) + 1) :]


SEEDS = seeds()
MUTATIONS: list[Mutation] = [
    *(_lines(change) for change in (_delete, _duplicate, _indent, _replace_value, _replace_value, _misspell)),
    _noise,
    _noise,
    _truncate,
    _splice,
]


def mutated(generator: random.Random) -> str:
    """A valid text with one to four mistakes."""
    text = generator.choice(SEEDS)
    for _ in range(generator.randint(1, 4)):
        text = generator.choice(MUTATIONS)(generator, text)
    return text


def check(text: str, directory: Path) -> bool:
    """Compile a text, and hold what comes out against what is promised. Returns whether it compiled."""
    source = gpuctl.Source("broken.yaml", text)
    result = gpuctl.compile(source, directory=directory)
    assert result.objects or not result.ok or all(document.kind == "platform" for document in result.documents)
    lines = lines_of(text)
    for diagnostic in result.diagnostics:
        assert diagnostic.code != "GPU901", diagnostic.message
        span = diagnostic.span
        assert span is not None
        assert 1 <= span.line <= len(lines) + 1, diagnostic
        line = lines[span.line - 1] if span.line <= len(lines) else ""
        assert 1 <= span.column <= len(line) + 2, diagnostic
        assert (span.end_line, span.end_column) >= (span.line, span.column), diagnostic
        diagnostic.to_dict()
    text_printer.render(result.diagnostics, result.sources)
    assert result.ok == (not any(item.severity is Severity.ERROR for item in result.diagnostics))
    return result.ok


@pytest.mark.parametrize("batch", range(BATCHES))
def test_broken_inputs(batch: int, tmp_path: Path) -> None:
    generator = random.Random(batch)
    compiled = 0
    for number in range(PER_BATCH):
        text = mutated(generator)
        try:
            compiled += check(text, tmp_path)
        except Exception as error:
            pytest.fail(f"batch {batch}, number {number}: {error!r}\n{text}")
    # Neither all broken nor all whole: the mutations are worth something.
    assert PER_BATCH * 0.05 < compiled < PER_BATCH * 0.9


@pytest.mark.parametrize("batch", range(4))
def test_formatting_broken_inputs(batch: int, tmp_path: Path) -> None:
    """Formatting never fails, is idempotent, and changes nothing about what a document becomes."""
    generator = random.Random(1000 + batch)
    for number in range(300):
        text = mutated(generator)
        try:
            formatted = format_source(gpuctl.Source("broken.yaml", text)).text
            assert format_source(gpuctl.Source("broken.yaml", formatted)).text == formatted
            before = gpuctl.compile(gpuctl.Source("broken.yaml", text), directory=tmp_path)
            after = gpuctl.compile(gpuctl.Source("broken.yaml", formatted), directory=tmp_path)
            assert before.objects == after.objects
        except Exception as error:
            pytest.fail(f"batch {batch}, number {number}: {error!r}\n{text}")


@pytest.mark.parametrize("text", SEEDS, ids=range(len(SEEDS)))
def test_formatting_keeps_comments_and_meaning(text: str, tmp_path: Path) -> None:
    formatted = format_source(gpuctl.Source("a.yaml", text)).text
    assert formatted.count("#") == text.count("#")
    before = gpuctl.compile(gpuctl.Source("a.yaml", text), directory=tmp_path)
    after = gpuctl.compile(gpuctl.Source("a.yaml", formatted), directory=tmp_path)
    assert before.objects == after.objects
    for obj in after.objects:
        assert read_pyyaml(emit_object(obj)) == obj
