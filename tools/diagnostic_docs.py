"""Write docs/diagnostics.md, the list of all diagnostics, and its Chinese twin from their catalogue: ``make docs``.

The output below an example is what ``gpuctl validate`` prints for it: in both languages English. With ``--check``
nothing is written, and the exit code is 1 if a page is out of date.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import gpuctl
from gpuctl.cli.output.text import render
from gpuctl.frontend.codes import CODES, CodeRule
from gpuctl.frontend.codes.code_translations import chinese_texts, translate

DOCS = Path(__file__).resolve().parents[1] / "docs"
MARK = "  #!"
SOURCE = "<!-- Written by tools/diagnostic_docs.py from compiler/gpuctl/frontend/codes/: `make docs`. -->"


class Language(NamedTuple):
    """The texts of a page in one language, beside those of the codes.

    ``sections``: their titles, by the first digit of a code. ``summary``: the paragraph below a code, from the title
    and the severity.
    """

    introduction: str
    sections: dict[str, str]
    columns: str
    severities: dict[str, str]
    summary: str
    with_platform: str


ENGLISH = Language(
    f"""\
# Diagnostics

English | [简体中文](diagnostics.zh-CN.md)

{SOURCE}

The diagnostics of documents. Codes are stable; `gpuctl explain GPU203` prints the same in a terminal, with `--lang zh`
in Chinese. `--strict` turns warnings into errors.
""",
    {
        "0": "Reading",
        "1": "Documents",
        "2": "Fields",
        "3": "Templates",
        "4": "Several documents",
        "5": "Command lines",
        "6": "Platform and output",
        "9": "gpuctl itself",
    },
    "| code | severity | meaning |",
    {"error": "error", "warning": "warning", "note": "note"},
    "**{title}** ({severity}).",
    "with platform.yaml",
)
CHINESE = Language(
    f"""\
# 诊断

[English](diagnostics.md) | 简体中文

{SOURCE}

文档的诊断。代码是稳定的；在终端里用 `gpuctl explain GPU203` 可以查到同样的内容，加上 `--lang zh` 输出中文。\
`--strict` 把警告当作错误。
""",
    {
        "0": "读取",
        "1": "文档",
        "2": "字段",
        "3": "模板",
        "4": "多份文档之间",
        "5": "命令行",
        "6": "平台与输出",
        "9": "gpuctl 自身",
    },
    "| 代码 | 级别 | 含义 |",
    {"error": "错误", "warning": "警告", "note": "提示"},
    "**{title}**（{severity}）。",
    "使用 platform.yaml",
)


def pages() -> dict[Path, str]:
    """Return the text of each page."""
    texts = chinese_texts()
    outputs = {rule.code: _output(rule) for rule in CODES.values() if _is_shown(rule)}
    chinese = [translate(rule, texts) for rule in CODES.values()]
    return {
        DOCS / "diagnostics.md": _page(list(CODES.values()), ENGLISH, outputs),
        DOCS / "diagnostics.zh-CN.md": _page(chinese, CHINESE, outputs),
    }


def _page(all_rules: list[CodeRule], language: Language, outputs: dict[str, str]) -> str:
    lines = [language.introduction]
    for digit, title in language.sections.items():
        rules = [rule for rule in all_rules if rule.code[3] == digit]
        lines += [f"## {title}", "", language.columns, "| --- | --- | --- |"]
        for rule in rules:
            severity = language.severities[rule.severity]
            lines.append(f"| [{rule.code}](#{rule.code.lower()}) | {severity} | {rule.title} |")
        lines.append("")
        for rule in rules:
            lines += _section(rule, language, outputs.get(rule.code))
    return "\n".join(lines).rstrip("\n") + "\n"


def _is_shown(rule: CodeRule) -> bool:
    """Return True if the page shows the example. One with control characters would be invisible."""
    return bool(rule.example) and (rule.example or "").replace("\n", "").isprintable()


def _section(rule: CodeRule, language: Language, output: str | None) -> list[str]:
    title = f"{rule.title[0].upper()}{rule.title[1:]}" if language is ENGLISH else rule.title
    summary = language.summary.format(title=title, severity=language.severities[rule.severity])
    lines = [f"### {rule.code}", "", summary, "", rule.explanation, "", rule.fix, ""]
    if output is not None:
        lines += ["```yaml", (rule.example or "").replace(MARK, "").rstrip("\n"), "```", ""]
        if rule.companion:
            lines += [language.with_platform, "", "```yaml", rule.companion.replace(MARK, "").rstrip("\n"), "```", ""]
        lines += ["```text", output.rstrip("\n"), "```", ""]
    return lines


def _output(rule: CodeRule) -> str:
    """Return the output of the example for this code."""
    platform = gpuctl.Source("platform.yaml", rule.companion.replace(MARK, "")) if rule.companion else None
    source = gpuctl.Source("example.yaml", (rule.example or "").replace(MARK, ""))
    with tempfile.TemporaryDirectory() as empty:
        result = gpuctl.compile(source, platform=platform, directory=Path(empty))
    return render([item for item in result.diagnostics if item.code == rule.code], result.sources, summary=False)


def main(arguments: list[str]) -> int:
    """Write or check the pages; return the exit code."""
    stale = False
    for path, text in pages().items():
        if arguments != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"docs/{path.name} is out of date: make docs", file=sys.stderr)
            stale = True
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
