"""Ten thousand broken inputs: each yields objects or a diagnostic with a true position, never an exception."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

import gpuctl
from gpuctl.backend.emitter import emit_stream
from gpuctl.backend.schema_validation import schema_validator
from gpuctl.cli.output import github, gitlab, junit, sarif
from gpuctl.cli.output import json as json_printer
from gpuctl.cli.output import text as text_printer
from gpuctl.frontend.codes import CODES
from gpuctl.frontend.diagnostics import Severity, SourceSpan, in_source_order
from gpuctl.frontend.source import Source, lines_of
from properties.mutations import mutated, mutated_bytes
from properties.scale import scaled

BATCHES = scaled(20)
PER_BATCH = 500


def check(text: str, directory: Path) -> bool:
    """Compile a text and hold what comes out against what is promised. Returns whether it compiled."""
    result = gpuctl.compile(Source("broken.yaml", text), directory=directory)
    check_result(result)
    return result.ok


def check_result(result: gpuctl.Compilation) -> None:
    """Objects or a diagnostic; true positions; every printer takes it; what compiles is valid and reads back."""
    assert result.objects or result.diagnostics
    assert result.ok == (not any(item.severity is Severity.ERROR for item in result.diagnostics))
    if not result.ok:
        assert not result.objects
    lines = {name: lines_of(source.text) for name, source in result.sources.items()}
    for diagnostic in result.diagnostics:
        assert diagnostic.code != "GPU901", diagnostic.message
        assert diagnostic.code in CODES, diagnostic
        assert diagnostic.message.strip(), diagnostic
        assert diagnostic.span is not None, diagnostic
        for span in (diagnostic.span, *(related.span for related in diagnostic.related)):
            check_span(span, lines)
    assert result.diagnostics == in_source_order(result.diagnostics)
    check_printers(result)
    validator = schema_validator(result.settings.platform.kubernetes.version.removeprefix("v")) if result.ok else None
    for obj in result.objects:
        assert validator is not None, "there are objects"
        assert validator.check(obj) == []
    emitted = emit_stream(result.objects)
    assert list(yaml.load_all(emitted, Loader=yaml.CSafeLoader)) == result.objects


def check_span(span: SourceSpan, lines: dict[str, list[str]]) -> None:
    """A span lies inside its source; its end is exclusive, and may be the line after the last."""
    if span.file not in lines:
        # A source that could not be decoded is in no table.
        assert (span.line, span.column) >= (1, 1), span
        return
    of_file = [*lines[span.file], ""]
    for line, column in ((span.line, span.column), (span.end_line, span.end_column)):
        assert 1 <= line <= len(of_file), span
        assert 1 <= column <= len(of_file[line - 1]) + 2, (span, of_file[line - 1])
    assert span.column <= len(of_file[span.line - 1]) + 1, (span, of_file[span.line - 1])
    assert (span.end_line, span.end_column) >= (span.line, span.column), span


def check_printers(result: gpuctl.Compilation) -> None:
    """Every format is well-formed, and no control character of a source reaches a terminal."""
    shown = text_printer.render(result.diagnostics, result.sources)
    assert all(character == "\n" or character.isprintable() for character in shown), repr(shown)
    value = json.loads(json_printer.render(result.diagnostics))
    assert len(value["diagnostics"]) == len(result.diagnostics)
    log = json.loads(sarif.render(result.diagnostics))
    assert len(log["runs"][0]["results"]) == len(result.diagnostics)
    assert len(github.render(result.diagnostics).splitlines()) == len(result.diagnostics)
    json.loads(gitlab.render(result.diagnostics))
    ElementTree.fromstring(junit.render(result.diagnostics, result.documents))
    shown.encode("utf-8")


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutated_documents_do_not_crash_compile(batch: int, tmp_path: Path) -> None:
    compiled = 0
    for number in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        text = mutated(number)
        try:
            compiled += check(text, tmp_path)
        except Exception as error:
            pytest.fail(f"mutated({number}): {error!r}\n{text!r}")
    # Neither all broken nor all whole: the mutations are worth something.
    assert PER_BATCH * 0.05 < compiled < PER_BATCH * 0.9


@pytest.mark.parametrize("batch", range(2))
def test_mutated_bytes_do_not_crash_compile(batch: int, tmp_path: Path) -> None:
    """Standard input, with bytes that are no text."""
    for number in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        data = mutated_bytes(number)
        try:
            check_result(gpuctl.compile("-", stdin=io.BytesIO(data), directory=tmp_path))
        except Exception as error:
            pytest.fail(f"mutated_bytes({number}): {error!r}\n{data!r}")
