"""The form of the console writes fields into YAML text, and leaves alone what it cannot read. Places of findings."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.browser import tools
from support.console_texts import FILES

Form = Callable[..., list[Any]]
RUN = """\
import * as lines from "./lines.js";
import * as ranges from "./ranges.js";
import * as words from "./words.js";
const calls = JSON.parse(process.argv[2]);
const found = calls.map(([name, ...given]) => ({ ...lines, ...ranges, ...words })[name](...given));
process.stdout.write(JSON.stringify(found.map((value) => (value === undefined ? "unreadable" : value))));
"""
NAMES = [
    *("yes", "NO", "null", "~", "true", "1e3", "0x1f", "1_000", ".inf", "2024-01-01", "12:30:45", "<<", "=", "y"),
    *(": ", "a: b", "a #b", "#a", "x:", "- a", "-", "? a", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "{a}", "[a]"),
    *(
        '"',
        "'",
        "it's",
        'a "b"',
        "\\",
        "a\\n",
        "a\nb",
        "\ta",
        " a ",
        "a,b",
        "é",
        "\u2028",
        "\U0001f600",
        "null: 1",
        "---",
    ),
]


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Form:
    """Run functions of the form's modules in Node.js: name and arguments of each."""
    tools()
    directory: Path = tmp_path_factory.mktemp("form")
    for name in ("lines.js", "ranges.js", "words.js"):
        shutil.copy(FILES / "document" / name, directory)
    (directory / "package.json").write_text('{"type": "module"}')
    (directory / "run.js").write_text(RUN)

    def run(*calls: list[Any]) -> list[Any]:
        command = ["node", str(directory / "run.js"), json.dumps(calls)]
        return list(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))

    return run


def test_any_text_is_written_as_it_is(form: Form) -> None:
    written = form(*(["scalar", name] for name in NAMES))
    before = "job:\n  name: old # mine\nresources:\n  gpu: 1\n"
    documents = form(*(["write", before, "job.name", value] for value in written))
    for name, document in zip(NAMES, documents, strict=True):
        assert yaml.safe_load(document) == {"job": {"name": name}, "resources": {"gpu": 1}}
        assert " # mine\n" in document
    assert form(*(["read", document, "job.name"] for document in documents)) == NAMES


def test_any_words_are_a_command(form: Form) -> None:
    [line] = form(["line", NAMES])
    [written] = form(["commandOf", line])
    [document] = form(["write", "environment:\n  image: a\n", "environment.command", f"{written} # mine"])
    assert yaml.safe_load(document)["environment"]["command"] == NAMES
    [again] = form(["read", document, "environment.command"])
    assert form(["commandLine", again]) == [line]


def test_mounts_are_read_as_they_were_written(form: Form) -> None:
    texts = ["data:/data", "/scratch", "yes:/a", "1e3:/b:c", '"x":/d', "/a#b", "/it's"]
    items = form(*(["mountOf", text] for text in texts))
    [document] = form(["writeItems", "kind: training\n", "storage", "workdirs", items])
    found = yaml.safe_load(document)["storage"]["workdirs"]
    assert found[2] == {"pvc": {"claim": "yes"}, "mountPath": "/a"}
    assert [item.get("mountPath", item.get("path")) for item in found] == [text[text.index("/") :] for text in texts]
    [again] = form(["readItems", document, "storage", "workdirs"])
    assert form(*(["mountText", item] for item in again)) == texts
    assert form(["mountText", "{pvc: {claim: 'data'}, mountPath: '/d'}"]) == ["data:/d"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("job:\n    name: a\n", "job.name"),
        ("job: {name: a}\n", "job.name"),
        ('{"job": {"name": "a"}}\n', "job.name"),
        ('"job":\n  "name": a\n', "job.name"),
        ("job:\n  name: a\n    b\n", "job.name"),
        ("job:\n  name: |\n    a\n", "job.name"),
        ("job:\n  name:\n    a\n", "job.name"),
        ("environment:\n  command:\n  - a\n", "environment.command"),
        ('environment:\n  command: ["a",\n    "b"]\n', "environment.command"),
        ("resources:\n  nodes:\n    min: 1\n    max: 2\n", "resources.nodes"),
    ],
)
def test_other_forms_of_a_field_are_not_changed(form: Form, text: str, path: str) -> None:
    assert form(["read", text, path], ["write", text, path, "b"]) == ["unreadable", text]


def test_other_forms_of_mounts_are_not_changed(form: Form) -> None:
    text = "storage:\n  workdirs:\n  - path: /a\n"
    assert form(["readItems", text, "storage", "workdirs"]) == ["unreadable"]
    assert form(["writeItems", text, "storage", "workdirs", ["{path: /b}"]]) == [text]
    assert form(*(["mountText", item] for item in ("path: /a", "{path: /a} # b", "{path: a}"))) == ["unreadable"] * 3


def test_removed_fields_leave_nothing(form: Form) -> None:
    text = "roles:\n- name: a\nresources:\n  gpu: 1\n  nodes:\n    min: 1\n    max: 2\n  # the pool\n  pool: a\n"
    rest = "roles:\n- name: a\nresources:\n  gpu: 1\n  # the pool\n  pool: a\n"
    assert form(["write", text, "resources.nodes", ""]) == [rest]
    assert form(["write", "job:\n  name: a\nservice:\n  port: 1\n", "service.port", ""]) == ["job:\n  name: a\n"]


def test_kind_is_written_into_the_document(form: Form) -> None:
    assert form(["write", "---\njob:\n  name: a\n", "kind", "training"]) == ["---\nkind: training\njob:\n  name: a\n"]
    assert form(["write", "", "kind", "training"]) == ["kind: training\n"]


def test_findings_have_ranges_in_the_text(form: Form) -> None:
    text = "kind: training\n# \U0001f600 x: y\ncolour: red\n"
    items = [
        {"line": 3, "column": 1, "endLine": 3, "endColumn": 7},
        # Columns count code points, offsets UTF-16 units.
        {"line": 2, "column": 5, "endLine": 2, "endColumn": 6},
        # A finding of several lines is marked on its first one.
        {"line": 1, "column": 7, "endLine": 3, "endColumn": 3},
        {"line": 1, "column": 3, "endLine": 1, "endColumn": 3},
        # The text has become shorter since.
        {"line": 9, "column": 5, "endLine": 9, "endColumn": 8},
        {"line": 1, "column": 80, "endLine": 1, "endColumn": 90},
    ]
    units = text.encode("utf-16-le")
    found = form(["rangesOf", text, items])[0]
    marked = [units[2 * one["from"] : 2 * one["to"]].decode("utf-16-le") for one in found]
    assert marked == ["colour", "x", "training", "n", "", ""]
    assert form(["rangesOf", "", items[:1]]) == [[{"from": 0, "to": 0}]]


@pytest.mark.parametrize(
    ("old", "text", "change"),
    [
        ("a: 1\nb: 2\n", "a: 1\nb: 3\n", [8, 9, "3"]),
        ("a: 1\n", "a: 1\nb: 2\n", [5, 5, "b: 2\n"]),
        ("aaa", "aa", [2, 3, ""]),
        ("aa", "aaa", [2, 2, "a"]),
        ("", "a", [0, 0, "a"]),
        ("abc", "", [0, 3, ""]),
    ],
)
def test_change_between_texts_is_their_difference(form: Form, old: str, text: str, change: list[Any]) -> None:
    start, end, inserted = change
    assert old[:start] + inserted + old[end:] == text
    assert form(["changeBetween", old, text]) == [{"from": start, "to": end, "insert": inserted}]


def test_next_line_is_indented_below_a_field(form: Form) -> None:
    lines = ["", "a: 1", "a:", "  a: ", "  - b", "    c:"]
    assert form(*(["indentAfter", line] for line in lines)) == ["", "", "  ", "    ", "  ", "      "]
