"""Write docs/diagnostics.md, the list of all diagnostics, from their catalogue: ``make docs``.

The output below an example is what ``gpuctl validate`` prints for it. With ``--check`` nothing is written, and the exit
code is 1 if the page is out of date.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import gpuctl
from gpuctl.cli.output.text import render
from gpuctl.frontend.codes import CODES, CodeRule

TARGET = Path(__file__).resolve().parents[1] / "docs" / "diagnostics.md"
MARK = "  #!"
SECTIONS = {
    "0": "Reading",
    "1": "Documents",
    "2": "Fields",
    "3": "Templates",
    "4": "Several documents",
    "5": "Command lines",
    "6": "Platform and output",
    "9": "gpuctl itself",
}


def page() -> str:
    """Return the page."""
    lines = [
        "# Diagnostics",
        "",
        "<!-- Written by tools/diagnostic_docs.py from compiler/gpuctl/frontend/codes/: `make docs`. -->",
        "",
        "The diagnostics of documents. Codes are stable; `gpuctl explain GPU203` prints the same in a terminal.",
        "`--strict` turns warnings into errors.",
        "",
    ]
    for digit, title in SECTIONS.items():
        rules = [rule for rule in CODES.values() if rule.code[3] == digit]
        lines += [f"## {title}", "", "| code | severity | meaning |", "| --- | --- | --- |"]
        lines += [f"| [{rule.code}](#{rule.code.lower()}) | {rule.severity} | {rule.title} |" for rule in rules]
        lines.append("")
        for rule in rules:
            lines += _section(rule)
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(rule: CodeRule) -> list[str]:
    lines = [f"### {rule.code}", "", f"**{rule.title[0].upper()}{rule.title[1:]}** ({rule.severity}).", ""]
    lines += [rule.explanation, "", rule.fix, ""]
    if rule.example and rule.example.replace("\n", "").isprintable():
        lines += ["```yaml", rule.example.replace(MARK, "").rstrip("\n"), "```", ""]
        if rule.companion:
            lines += ["with platform.yaml", "", "```yaml", rule.companion.replace(MARK, "").rstrip("\n"), "```", ""]
        lines += ["```text", _output(rule).rstrip("\n"), "```", ""]
    return lines


def _output(rule: CodeRule) -> str:
    """Return the output of the example for this code."""
    platform = gpuctl.Source("platform.yaml", rule.companion.replace(MARK, "")) if rule.companion else None
    source = gpuctl.Source("example.yaml", (rule.example or "").replace(MARK, ""))
    with tempfile.TemporaryDirectory() as empty:
        result = gpuctl.compile(source, platform=platform, directory=Path(empty))
    return render([item for item in result.diagnostics if item.code == rule.code], result.sources, summary=False)


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit code."""
    text = page()
    if arguments == ["--check"]:
        if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
            print("docs/diagnostics.md is out of date: make docs", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
