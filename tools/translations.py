"""List the texts that have no Chinese translation: ``make docs``. A release fails on them: ``make translations``.

A text without a translation stays English: a contributor who cannot write Chinese can add a field, a setting or a
paragraph. Sentences are the exception: a page of the console shows them between Chinese ones, so a test fails if one is
missing. The texts are:

- those of the field reference, which ``reference_zh_CN.yaml`` in ``gpuctl.language`` translates;
- those of the diagnostic codes, which ``zh_CN.yaml`` in ``gpuctl.frontend.codes`` translates;
- the sentences of ``gpuctl.language.sentences``, which ``sentences_zh_CN.yaml`` beside it translates;
- the meanings of causes, which ``causes_zh_CN.yaml`` in ``gpuctl.reading.why`` translates;
- lines of the Chinese pages (``*.zh-CN.md``) that are still English.

Unused translations are listed too. With ``--release`` the exit code is 1 if anything is listed.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Formatter

import schemas

from gpuctl.frontend.codes import CODES, code_translations
from gpuctl.language import translation_files
from gpuctl.reading.why import cause_translations
from gpuctl.reading.why.finding import CAUSES

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (ROOT / "compiler" / "gpuctl", ROOT / "server")
HINTS = ROOT / "compiler" / "gpuctl" / "hints.py"
PHRASES = ("Phrase", "_takeover")
"""Functions of hints that make a text for each surface."""
REFUSING = (
    *(ROOT / "compiler" / "gpuctl" / name for name in ("acts", "apply", "capacity", "reading")),
    *(ROOT / "server" / name for name in ("gpuctl_server", "gpuctl_usage/answers")),
)
"""Packages whose errors are answers of the service."""
INTERNAL_ERRORS = frozenset(
    {
        *("AssertionError", "TypeError", "UnknownMatch", "ValueError"),
        *("DamagedSnapshot", "DamagedTokens"),
        *("CannotListen", "CannotStart", "ChannelCommandError", "InvalidCertificate", "NoAddress", "TokenCommandError"),
    }
)
"""Errors that no answer has: of gpuctl itself, of stored data, and of programs of administrators."""
SUFFIX = ".zh-CN.md"

CODE = re.compile(r"`[^`]+`")
FENCED = re.compile(r"^```\w+\n.*?^```$", re.MULTILINE | re.DOTALL)
ENGLISH = re.compile(
    r"(?<![-\w])(the|a|an|of|and|or|is|are|was|has|have|to|in|on|at|by|with|without|from|for|that|which|what|it|its|this|not"
    r"|no|as|when|where)(?![-\w])",
    re.IGNORECASE,
)
"""Words that almost every English sentence has, and no Chinese one."""


def english_lines(text: str) -> list[str]:
    """Return the lines of a Chinese page that are English. Code, addresses, quotations and comments do not count."""
    found = []
    for line in FENCED.sub("", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)).splitlines():
        words = line
        for same in (CODE, re.compile(r"\]\([^)]*\)"), re.compile(r'"[^"\n]*"')):
            words = same.sub("", words)
        if ENGLISH.search(words) and not line.startswith("[English]("):
            found.append(line)
    return found


def diagnostic_problems() -> Iterator[str]:
    """Yield a sentence for each missing or unused translation of a diagnostic code."""
    texts = code_translations.chinese_texts()
    wanted = {(code, name) for code in CODES for name in code_translations.TEXTS}
    known = {(code, name) for code, names in texts.items() for name, text in names.items() if text}
    yield from (f"zh_CN.yaml: no translation of: {name} of {code}" for code, name in sorted(wanted - known))
    yield from (f"zh_CN.yaml: unused: {name} of {code}" for code, name in sorted(known - wanted))


def cause_problems() -> Iterator[str]:
    """Yield a sentence for each missing or unused translation of a cause of ``gpuctl why``."""
    known = cause_translations.chinese_causes()
    yield from (f"causes_zh_CN.yaml: no translation of: {cause}" for cause in CAUSES if not known.get(cause))
    yield from (f"causes_zh_CN.yaml: unused: {cause}" for cause in known if cause not in CAUSES)


def sentence_templates(directories: Iterable[Path]) -> Iterator[tuple[str, str | None]]:
    """Yield file and template of each `say`, `Template` and phrase of hints in source files; None if it is computed."""
    for path in (file for directory in directories for file in sorted(directory.rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        is_hints = path == HINTS
        for call in ast.walk(ast.parse(text)) if is_hints or "gpuctl.language.sentences" in text else ():
            name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
            if isinstance(call, ast.Call) and name in (PHRASES if is_hints else ("say", "Template")):
                for given in _service_texts(call) if is_hints else call.args[:1]:
                    if isinstance(given, ast.Constant):
                        yield from [(path.name, given.value)] if given.value else []
                    elif isinstance(given, ast.JoinedStr | ast.BinOp):
                        yield path.name, None


def _service_texts(phrase: ast.Call) -> Sequence[ast.expr]:
    """Return the texts of a phrase that the service sends. The console has those of commands, or omits them too."""
    is_omitted = isinstance(phrase.args[1], ast.Constant) and not phrase.args[1].value
    return phrase.args[1:] if is_omitted or ast.unparse(phrase.func) != "Phrase" else phrase.args


def unsaid_refusals(directories: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each raised error of the service whose message or hint is a text without `say`, and for
    each such text of a call of `tell`.
    """
    for path, node in _nodes(directories):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        if name in INTERNAL_ERRORS or (call is node and name.rpartition(".")[2] != "tell"):
            continue
        for given in (*call.args, *(word.value for word in call.keywords)):
            text = _constant_part(given)
            if re.search(r"[a-z]{2,} [a-z]+.* [a-z]{2,}", text):
                yield f"{path.name}:{given.lineno}: {text!r} is not made by `say`"


def unsaid_sentences(directories: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each `Sentence` of English words: it is for texts that no language changes.

    Mypy requires a `Sentence` where a diagnostic takes a text.
    """
    for path, node in _nodes(directories):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Sentence":
            text = re.sub("`[^`]*`", "", _constant_part(node.args[0]))
            if re.search(r"[a-z]{2,} [a-z]", text):
                yield f"{path.name}:{node.lineno}: {text!r} is not made by `say`"


def _nodes(directories: Iterable[Path]) -> Iterator[tuple[Path, ast.AST]]:
    for path in (file for directory in directories for file in sorted(directory.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path, node


def _constant_part(given: ast.expr) -> str:
    parts = given.values if isinstance(given, ast.JoinedStr) else [given]
    return "x".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def values_in(template: str) -> set[str]:
    """Return the names of the values in a template."""
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def sentence_problems() -> Iterator[str]:
    """Yield a sentence for each missing, unused or wrong translation of a template of sentences."""
    known, made = translation_files.chinese_sentences(), [*sentence_templates(SOURCES)]
    yield from (f"{name}: a template of `say` is not a constant" for name, template in made if template is None)
    yield from unsaid_refusals(REFUSING)
    yield from unsaid_sentences(SOURCES)
    times = Counter(pair["en"] for pair in translation_files.sentence_pairs())
    yield from (f"sentences_zh_CN.yaml: twice: {template}" for template in times if times[template] > 1)
    templates = {template for _, template in made if template is not None}
    for template in sorted(templates - known.keys()):
        # A template of values alone, such as a list, and a command are the same in every language.
        if re.search("[A-Za-z]{2}", re.sub(r"{[^{}]*}|^`[^`]*`$", "", template)):
            yield f"sentences_zh_CN.yaml: no translation of: {template}"
    yield from (f"sentences_zh_CN.yaml: unused: {template}" for template in sorted(known.keys() - templates))
    for template in sorted(templates & known.keys()):
        unknown = sorted(values_in(known[template]) - values_in(template))
        yield from (f"sentences_zh_CN.yaml: {template!r} has no value {value}" for value in unknown)


def problems() -> Iterator[str]:
    """Yield a sentence for each missing or unused translation."""
    _, chinese = schemas.outputs()
    yield from (f"reference_zh_CN.yaml: {problem}" for problem in chinese.problems)
    yield from diagnostic_problems()
    yield from cause_problems()
    yield from sentence_problems()
    for directory in (ROOT, ROOT / "docs", ROOT / "docs" / "paths", ROOT / "examples"):
        for page in sorted(directory.glob(f"*{SUFFIX}")):
            # These pages are generated: their texts are listed above.
            if page.name not in (f"reference{SUFFIX}", f"diagnostics{SUFFIX}"):
                lines = english_lines(page.read_text(encoding="utf-8"))
                yield from (f"{page.relative_to(ROOT)}: not translated: {line}" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the list; return the exit code."""
    parser = argparse.ArgumentParser(description="List the texts that have no Chinese translation.")
    parser.add_argument("--release", action="store_true", help="exit 1 if there are any")
    options = parser.parse_args(arguments)
    found = list(problems())
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found and options.release else 0


if __name__ == "__main__":
    sys.exit(main())
