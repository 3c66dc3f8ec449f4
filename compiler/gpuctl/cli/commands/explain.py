"""``gpuctl explain``: explain a field, a kind, a diagnostic or a cause."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from gpuctl.cli.output.paragraphs import wrapped_lines
from gpuctl.cli.output.table import width_of
from gpuctl.frontend.codes import CODES
from gpuctl.frontend.codes.code_translations import chinese_texts, translate
from gpuctl.language.kinds import KINDS, model_of
from gpuctl.language.reference import (
    ITEM,
    USER_KEY,
    description_of,
    entries,
    fields_of,
    first_sentence,
    kind_called,
    look_up,
    names_of,
    snippet,
)
from gpuctl.language.sentences import Template, say
from gpuctl.language.spelling import nearest
from gpuctl.language.translation_files import chinese_reference, sentences_in
from gpuctl.reading.why.cause_translations import chinese_causes
from gpuctl.reading.why.finding import CAUSES

if TYPE_CHECKING:
    from gpuctl.language.reference import FieldEntry, Match

Texts = Mapping[str, str]
"""The translations of texts of the field reference; none in English."""
_FIELDS = Template("Fields")
MAX_WIDTH = 100
MARK = "#!"
"""Marks the line of an example to which its diagnostic refers."""
CHINESE_CHARACTER = re.compile("[\u3400-\u9fff]")


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete kinds and their fields, level by level; complete codes if the word begins like one."""
    if incomplete[:3].upper() == "GPU" and not incomplete.lower().startswith("gpu-"):
        return [code for code in CODES if code.startswith(incomplete.upper())]
    kind = kind_called(incomplete.partition(".")[0])
    if "." not in incomplete or kind is None:
        return [name for name in KINDS if name.startswith(incomplete)]
    start = incomplete.partition(".")[0]
    topics = dict.fromkeys(f"{start}.{entry.topic}" for entry in entries(kind))
    depth = incomplete.count(".")
    return [topic for topic in topics if topic.startswith(incomplete) and topic.count(".") == depth]


@click.command(
    "explain",
    short_help="Explain a field of the language or a diagnostic code.",
    epilog="Examples:\n\n\b\n  $ gpuctl explain training.resources.gpu-type\n  $ gpuctl explain gpu-type\n"
    "  $ gpuctl explain GPU203",
)
@click.argument("topic", required=False, shell_complete=_complete)
@click.option(
    "--lang",
    "language",
    type=click.Choice(["en", "zh"]),
    default="en",
    show_default=True,
    help="Language of the explanation. A text without a translation is in English.",
)
def command(topic: str | None, language: str) -> int:
    """Explain a field, a kind of document, a diagnostic, or a cause of `gpuctl why`.

    TOPIC is a path such as training.resources.gpu-type in any spelling, or the end of one (resources.gpu, gpu-type). It
    may also be a kind, a code such as GPU203, or a cause such as out-of-memory. Without TOPIC, the kinds are listed.
    """
    with sentences_in(language):
        return _explain(topic, language)


def _explain(topic: str | None, language: str) -> int:
    """Print an explanation. Return the exit code."""
    texts = {pair["en"]: pair["zh"] for pair in chinese_reference()} if language == "zh" else {}
    if topic is None:
        return _kinds(texts)
    if re.fullmatch(r"gpu\d+", topic.strip(), re.IGNORECASE):
        return _code(topic.strip().upper(), language)
    answer = look_up(topic)
    if answer.kind is None and not answer.matches and _cause(topic.strip().lower(), language):
        return 0
    if answer.kind is not None:
        return _kind(answer.kind, answer.matches, texts)
    if len(answer.matches) == 1:
        return _field(answer.matches[0], texts)
    if answer.matches:
        return _candidates(topic, answer.matches, texts)
    if answer.suggestions:
        hint = "Did you mean " + " or ".join(f"`{suggestion}`" for suggestion in answer.suggestions) + "?"
    else:
        hint = "`gpuctl explain` lists the kinds, `gpuctl explain training` the fields of one."
    click.echo(f"error: no field, kind or code is called `{topic}`. {hint}", err=True)
    return 1


def _translated(text: str, texts: Texts) -> str:
    return texts.get(text, text)


def _cause(topic: str, language: str) -> bool:
    """Print the meaning of a cause of ``gpuctl why``. Return False if there is no such cause."""
    if topic not in CAUSES:
        return False
    _print_heading(topic)
    meaning = CAUSES[topic] if language == "en" else chinese_causes().get(topic, CAUSES[topic])
    _print_text(
        say(
            "A cause of `gpuctl why`: {meaning}. `gpuctl why JOB` has the numbers, and what helps.",
            meaning=meaning,
        )
    )
    return True


def kinds(texts: Texts) -> Iterator[tuple[str, str]]:
    """Return each kind of document and the first sentence about it."""
    return ((kind, first_sentence(_translated(description_of(model_of(kind)), texts))) for kind in KINDS)


def _kinds(texts: Texts) -> int:
    _print_heading(say("The kinds of documents"))
    _print_list(kinds(texts))
    click.echo()
    _print_heading(say("Continue with"))
    _print_list(
        (command, say(text))
        for command, text in (
            ("gpuctl explain training", Template("the fields of a kind")),
            ("gpuctl explain training.resources", Template("the fields of a block")),
            ("gpuctl explain gpu-type", Template("a field, wherever it is")),
            ("gpuctl explain GPU203", Template("a diagnostic")),
            ("gpuctl init training", Template("a commented document to start from")),
        )
    )
    return 0


def _kind(kind: str, matches: Sequence[Match], texts: Texts) -> int:
    _print_heading(kind)
    _print_text(_translated(description_of(model_of(kind)), texts))
    names = names_of(kind)
    if len(names) > 1:
        _print_text(say("Also called {names}.", names=list(names[1:])))
    _print_fields(fields_of(kind), texts)
    click.echo("\n" + say("`gpuctl init {kind}` prints a commented document to start from.", kind=kind))
    if matches:
        click.echo()
        _print_heading(say("Fields called {name}", name=kind))
        _print_matches(matches, texts)
    return 0


def _field(match: Match, texts: Texts) -> int:
    entry = match.entry
    one = len(match.kinds) == 1
    _print_heading(f"{entry.kind}.{entry.topic}" if one else entry.topic)
    _print_text(_translated(entry.description, texts))
    facts = [(say("Type"), _translated(entry.type_text, texts))]
    if entry.required:
        facts.append((say("Default"), say("none: the field is required")))
    elif entry.default_text is not None:
        facts.append((say("Default"), entry.default_text))
    if not one:
        facts.append((say("Kinds"), say("{kinds}", kinds=list(match.kinds))))
    click.echo()
    _print_list(facts)
    lines = snippet(entry)
    if lines:
        click.echo()
        _print_heading(say("Example"))
        click.echo(textwrap.indent("\n".join(lines), "  "))
    if entry.inner is not None:
        fields = fields_of(entry.kind, entry.path)
        titles = {ITEM: Template("Fields of an item"), USER_KEY: Template("Fields of an entry")}
        _print_fields(fields, texts, titles.get(fields[0].path[len(entry.path)], _FIELDS))
        topic = f"{entry.kind}.{fields[0].topic}"
        click.echo("\n" + say("More on one: `gpuctl explain {topic}`", topic=topic))
    if entry.form.partial is not None:
        click.echo("\n" + say("Its fields: `gpuctl explain {topic}`", topic=entry.form.partial))
    return 0


def _candidates(topic: str, matches: Sequence[Match], texts: Texts) -> int:
    _print_heading(say("{number} fields are called {name}", number=len(matches), name=topic))
    _print_matches(matches, texts)
    first = matches[0]
    click.echo("\n" + say("More on one: `gpuctl explain {topic}`", topic=f"{first.kinds[0]}.{first.entry.topic}"))
    return 0


def _code(code: str, language: str) -> int:
    rule = CODES.get(code)
    if rule is None:
        close = nearest(code, CODES)
        hint = f" Did you mean `{close}`?" if close else ""
        click.echo(f"error: there is no diagnostic `{code}`.{hint}", err=True)
        return 1
    if language == "zh":
        rule = translate(rule, chinese_texts())
    _print_heading(f"{rule.severity}[{rule.code}]: {rule.title}")
    _print_text(rule.explanation)
    if rule.example:
        click.echo()
        _print_heading(say("Example"))
        click.echo(textwrap.indent(rule.example.rstrip("\n").replace(MARK, f"# <- {say('here')}"), "  "))
    if rule.companion:
        click.echo()
        _print_heading(say("With this platform"))
        click.echo(textwrap.indent(rule.companion.rstrip("\n"), "  "))
    if rule.fix:
        click.echo()
        _print_heading(say("What to do"))
        _print_text(rule.fix)
    return 0


def _print_fields(fields: Sequence[FieldEntry], texts: Texts, title: Template = _FIELDS) -> None:
    click.echo()
    _print_heading(say(title))
    _print_list((entry.key, _field_line(entry, texts)) for entry in fields)


def _field_line(entry: FieldEntry, texts: Texts) -> str:
    facts = _translated(entry.type_text, texts)
    if entry.required:
        facts = say("{facts}; required", facts=facts)
    elif entry.default_text is not None:
        facts = say("{facts}; default `{default}`", facts=facts, default=entry.default_text)
    description = first_sentence(_translated(entry.description, texts))
    return say("{facts}. {description}", facts=facts, description=description)


def _print_matches(matches: Sequence[Match], texts: Texts) -> None:
    rows = []
    for match in matches:
        text = first_sentence(_translated(match.entry.description, texts))
        if len(match.kinds) > 1:
            text = say("{description} The same in {kinds}.", description=text, kinds=list(match.kinds[1:]))
        rows.append((f"{match.kinds[0]}.{match.entry.topic}", text))
    _print_list(rows)


def _print_heading(text: str) -> None:
    click.secho(text, bold=True)


def _print_text(text: str) -> None:
    """Print paragraphs, wrapped, except for those that are indented."""
    shown = []
    for paragraph in text.strip("\n").split("\n\n"):
        if not paragraph.startswith(" "):
            words = " ".join(paragraph.split())
            if CHINESE_CHARACTER.search(words):
                paragraph = "\n".join(wrapped_lines(words, _width() - 2, indent=0))
            else:
                paragraph = textwrap.fill(words, _width() - 2, break_long_words=False, break_on_hyphens=False)
        shown.append(textwrap.indent(paragraph, "  "))
    click.echo("\n\n".join(shown))


def _print_list(rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    formatter = click.HelpFormatter(width=_width())
    if not any(CHINESE_CHARACTER.search(text) for _, text in rows):
        with formatter.indentation():
            formatter.write_dl(rows, col_max=44)
        click.echo(formatter.getvalue(), nl=False)
        return
    column = min(44, max(width_of(name) for name, _ in rows)) + 4
    for name, text in rows:
        first, *rest = wrapped_lines(text, max(_width() - column - 2, 10), indent=0)
        gap = column - 2 - width_of(name)
        click.echo(f"  {name}" + (" " * gap if gap > 1 else "\n" + " " * column) + first)
        for line in rest:
            click.echo(" " * column + line)


def _width() -> int:
    return max(40, min(MAX_WIDTH, shutil.get_terminal_size().columns))
