"""The corpus of `tests/imports`: files of other tools, and the documents and ledgers that `gpuctl import` makes of them.

Each case has one input, maybe directories with files that it calls, ``args``, maybe ``platform.yaml``,
``expected.yaml`` (standard output) and ``expected.ledger``: the exit code, each line's outcome, and what is missing.
``IMPORTS=accept pytest tests/unit/test_import_corpus.py`` writes what comes out now.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuctl.cli.main import run
from gpuctl.frontend.source import Source
from gpuctl.importing.import_values import Given, Unreadable
from gpuctl.importing.tools import find_importer
from properties.scale import part_of

CORPUS = Path(__file__).resolve().parents[1] / "imports"
CASES = sorted(path.name for path in CORPUS.iterdir())
ACCEPT = os.environ.get("IMPORTS") == "accept"
# Keys of YAML whose values are on other lines.
_STRUCTURE = r"[ -]*\"?[\w.-]+\"?:\s*[|>{\[]?\s*\Z|[ -]*[|>]?\s*\Z|---\Z|[ \[\]{},]*\Z"
PARTS = 3
"""`make test` damages one in PARTS lines of each file."""
_EXPECTED = ("args", "expected.yaml", "expected.ledger", "platform.yaml")


def _input(case: str) -> str:
    [name] = [path.name for path in (CORPUS / case).iterdir() if path.is_file() and path.name not in _EXPECTED]
    return name


def _arguments(case: str) -> list[str]:
    return ["import", _input(case), *shlex.split((CORPUS / case / "args").read_text())]


def _ledger(answer: dict[str, list[dict[str, str]]], code: int) -> Iterator[str]:
    yield f"exit {code}"
    for entry in answer["ledger"]:
        lines = f"{entry['line']}" if entry["line"] == entry["lastLine"] else f"{entry['line']}-{entry['lastLine']}"
        yield f"{lines} {entry['outcome']} {entry['field'] or '-'}: {entry['text']}"
        if entry["note"]:
            yield f"    {entry['note']}"
    for item in answer["missing"]:
        yield f"{item['line']} missing {item['option']}: {item['reason']}"
    for item in answer["problems"]:
        yield f"{item['line']} problem: {item['message']}: {item['hint']}"
    for item in answer["diagnostics"]:
        yield f"{item['severity']} {item['code']} {item['path']}: {item['message']}"


@pytest.mark.parametrize("case", CASES)
def test_import_prints_the_expected_documents_and_ledger(
    case: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CORPUS / case)
    code = run(_arguments(case))
    documents = capfd.readouterr().out
    assert run([*_arguments(case), "-o", "json"]) == code
    answer = json.loads(capfd.readouterr().out)
    ledger = "".join(line + "\n" for line in _ledger(answer, code))
    for name, text in (("expected.yaml", documents), ("expected.ledger", ledger)):
        if ACCEPT:
            Path(name).write_text(text, encoding="utf-8")
        assert text == Path(name).read_text(encoding="utf-8")
    assert answer["problems"] or _lines_without_entry(answer, case) == []


def _lines_without_entry(answer: dict[str, list[dict[str, int]]], case: str) -> list[str]:
    """Return the lines of a case's input that are not in the ledger, although they say something."""
    known = {line for entry in answer["ledger"] for line in range(entry["line"], entry["lastLine"] + 1)}
    lines = Path(_input(case)).read_text(encoding="utf-8-sig").splitlines()
    return [
        f"{number}: {line}"
        for number, line in enumerate(lines, 1)
        if number not in known
        and line.strip()
        and (not line.lstrip().startswith("#") or line.startswith("#SBATCH "))
        and not re.match(_STRUCTURE, line)
    ]


def check_damaged(name: str, text: str) -> None:
    """Check that a damaged file is refused as unreadable, or becomes documents."""
    with contextlib.suppress(Unreadable):
        source = Source(name, text)
        found = find_importer(source, None).run(source, Given())
        assert all(draft.text() for draft in found.drafts)


@pytest.mark.parametrize("case", [case for case in CASES if _input(case).endswith((".yaml", ".yml"))])
def test_damaged_values_do_not_crash(case: str) -> None:
    lines = (CORPUS / case / _input(case)).read_text().split("\n")
    for index, line in part_of(enumerate(lines), PARTS):
        value = ("x", "[]", "{a: b}", "[a]")[index % 4]
        key = re.match(r"(\s*(?:- )?[\w./\"-]+:)", line)
        if key is None:
            continue
        depth = len(line) - len(line.lstrip())
        nested = index + 1
        while nested < len(lines) and len(lines[nested]) - len(lines[nested].lstrip()) > depth:
            nested += 1
        damaged = "\n".join([*lines[:index], f"{key[1]} {value}", *lines[nested:]])
        check_damaged("a.yaml", damaged)


@pytest.mark.parametrize("case", [case for case in CASES if not _input(case).endswith((".yaml", ".yml"))])
def test_a_missing_last_word_does_not_crash(case: str) -> None:
    """In each line: an option without its value, an unfinished substitution, a command that goes on."""
    lines = (CORPUS / case / _input(case)).read_text().split("\n")
    for index, line in part_of(enumerate(lines), PARTS):
        damaged = "\n".join([*lines[:index], line.removesuffix("\\").rstrip().rpartition(" ")[0], *lines[index + 1 :]])
        check_damaged("a.sbatch", damaged)
