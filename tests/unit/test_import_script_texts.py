"""Scripts that `gpuctl import` writes into documents print what those of the source print."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest

from gpuctl.frontend.source import Source
from gpuctl.importing.import_values import Given
from gpuctl.importing.tools import find_importer

SCRIPTS = {
    "here-document": "cat <<'EOF'\nfirst  \n\n\n\nsecond\t\nEOF\nls\n",
    "here-document of tabs": "cat <<-EOF\n\tfirst \n\n\n\n\t  second\n\tEOF\nls\n",
    "two here-documents": "cat <<A - <<B\na \nA\nb \n\n\n\nB\nls\n",
    "here-document of a substitution": 'X=$(cat <<EOF\na  \n\n\n\nb\nEOF\n)\necho "$X"\n',
    "single quotes": "printf '%s' 'a  \n\n\n\n b'\nls\n",
    "double quotes": 'printf "%s" "a  \n\n\n\n b"\nls\n',
    "quotes with even numbers on each line": "printf '%s' \"it's \n\n\n\n 'b\"\nls\n",
    "escaped blank": "printf '[%s]' a \\ \nls\n",
    "escaped blank at the end": "ls\nprintf '[%s]' a \\ \n",
    "word on two lines": "  printf '[%s]' a\\\n  b\n  ls\n",
    "target of a redirection": "echo a > 'x  \n\n\n\n y'\nls\n",
    "other blanks": "printf '[%s]' a\u3000\nls\n",
}
"""Lines of shell whose blanks count."""


def _slurm(script: str) -> Source:
    return Source("a.sbatch", f"#!/bin/bash\n#SBATCH --job-name=a --mem=1G\n{script}")


def _sky(script: str) -> Source:
    return Source("a.yaml", f"name: a\nrun: |2\n{indent(script, '  ', lambda line: True)}")


def _dstack(script: str) -> Source:
    lines = indent(script, "    ", lambda line: True)
    return Source("a.yaml", f"type: task\nname: a\nshell: bash\ncommands:\n  - |2\n{lines}")


def _arena(script: str) -> Source:
    head = "version: 0.1.0\nname: a\nframework: {name: pytorch}\nshell: bash\nworker: {replicas: 0}\n"
    return Source("a.yaml", f"{head}run: |2\n{indent(script, '  ', lambda line: True)}")


def _command(source: Source) -> list[str]:
    [draft] = find_importer(source, None).run(source, Given()).drafts
    command: list[str] = draft.get("environment.command")
    return command


def _printed(command: list[str], directory: Path) -> bytes:
    directory.mkdir()
    return subprocess.run(command, check=True, capture_output=True, cwd=directory).stdout


@pytest.mark.parametrize("source_of", [_slurm, _sky, _dstack, _arena])
@pytest.mark.parametrize("case", sorted(SCRIPTS))
def test_blanks_of_texts_stay(case: str, source_of: Callable[[str], Source], tmp_path: Path) -> None:
    command = _command(source_of(SCRIPTS[case]))
    assert command[:2] == ["bash", "-c"]
    assert _printed(command, tmp_path / "b") == _printed(["bash", "-c", SCRIPTS[case]], tmp_path / "a")


def test_blanks_outside_of_texts_go() -> None:
    script = "  \nif true; then  \n\techo a # b  \n\n\n\n\techo 'b  '  \nfi \n\n"
    assert _command(_slurm(script))[2] == "if true; then\n    echo a # b\n\n    echo 'b  '\nfi\n"


def test_the_indentation_of_all_lines_goes() -> None:
    command = _command(_slurm("bash -c '\n  a \\\n    b\n  python -c \"\n  c  \n\"\n'\n"))
    assert command[2] == 'a \\\n  b\npython -c "\n  c  \n"\n'


def test_scripts_of_other_interpreters_stay() -> None:
    script = 'print("""a  \n\n\n\nb""")  \n'
    source = _slurm(script)
    source = Source(source.name, source.text.replace("/bin/bash", "/usr/bin/python3"))
    assert _command(source) == ["python3", "-c", script]
