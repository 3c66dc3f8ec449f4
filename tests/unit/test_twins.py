"""Every page that has a Chinese twin says the same in both: structure, code, tables, links."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from support.pages import ROOT, blocks, prose, read

SUFFIX = ".zh-CN.md"
TWINS = sorted(
    str(path.relative_to(ROOT))
    for directory in (ROOT, ROOT / "docs", ROOT / ".github")
    for path in directory.glob(f"*{SUFFIX}")
)

CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def english_of(twin: str) -> str:
    """The English page of a Chinese one."""
    return twin.removesuffix(SUFFIX) + ".md"


def twin_of(page: str) -> str:
    """The Chinese page of an English one."""
    return page.removesuffix(".md") + SUFFIX


def text_of(page: str) -> str:
    """A page without fenced blocks, and without the line that leads to its twin."""
    switch = {switch_in(page)}
    return "\n".join(line for line in prose(page).splitlines() if line not in switch)


def switch_in(page: str) -> str:
    """The line of a page that leads to its twin."""
    if page.endswith(SUFFIX):
        return f"[English]({PurePosixPath(english_of(page)).name}) | 简体中文"
    return f"English | [简体中文]({PurePosixPath(twin_of(page)).name})"


def code_in(text: str) -> list[str]:
    """Everything in backticks, also where it goes over the end of a line."""
    return [" ".join(code.split()) for code in CODE.findall(text)]


def cells(row: str) -> list[str]:
    """The cells of a table's row."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def lines_like(mark: str, page: str) -> list[str]:
    """The lines of a page that begin with a mark."""
    return [line for line in text_of(page).splitlines() if line.startswith(mark)]


def links_in(page: str) -> list[str]:
    """Where a page links to, in the form that both languages share: without the language and without the heading."""
    return sorted(
        target if target.startswith("https://") else target.partition("#")[0].replace(SUFFIX, ".md")
        for target in LINK.findall(text_of(page))
    )


def words_in(page: str) -> list[str]:
    """The lines of a page without what is the same in every language: code, addresses, quotations, comments."""
    text = re.sub(r"<!--.*?-->", "", text_of(page), flags=re.DOTALL)
    for same in (CODE, re.compile(r"\]\([^)]*\)"), re.compile(r'"[^"\n]*"')):
        text = same.sub("", text)
    return text.splitlines()


def test_the_pages_that_have_twins() -> None:
    pages = ["README"]
    names = (
        "cluster",
        "daily",
        "gitops",
        "glossary",
        "operations",
        "reference",
        "sdk",
        "service",
        "threat-model",
        "usage-numbers",
    )
    assert [f"{page}{SUFFIX}" for page in [*pages, *(f"docs/{name}" for name in (*names, "usage"))]] == TWINS


@pytest.mark.parametrize("twin", TWINS)
def test_each_leads_to_the_other(twin: str) -> None:
    for page in (twin, english_of(twin)):
        assert read(page).splitlines()[2] == switch_in(page)


@pytest.mark.parametrize("twin", TWINS)
def test_the_same_code_blocks(twin: str) -> None:
    assert blocks(twin) == blocks(english_of(twin))


@pytest.mark.parametrize("twin", TWINS)
def test_the_same_structure(twin: str) -> None:
    """Headings, rows and items in the same order; headings that name a field or a file are the same."""

    def shape(page: str) -> list[str]:
        return [mark.strip() for mark in re.findall(r"^(#+ |\||- )", text_of(page), re.MULTILINE)]

    assert shape(twin) == shape(english_of(twin))

    for heading, original in zip(lines_like("#", twin), lines_like("#", english_of(twin)), strict=True):
        assert code_in(heading) == code_in(original)
        assert heading == original or not re.fullmatch(r"#+ [a-z]\S*", original)


@pytest.mark.parametrize("twin", TWINS)
def test_the_same_tables(twin: str) -> None:
    """Each row is about the same command, option, code or field, and all its code is the same."""
    rows, originals = lines_like("|", twin), lines_like("|", english_of(twin))
    assert len(rows) == len(originals)
    for row, original in zip(rows, originals, strict=True):
        assert len(cells(row)) == len(cells(original)), row
        assert code_in(cells(row)[0]) == code_in(cells(original)[0])
        assert sorted(code_in(row)) == sorted(code_in(original)), row


@pytest.mark.parametrize("twin", TWINS)
def test_the_same_code_in_the_text(twin: str) -> None:
    """Everything in backticks; the order of words differs between languages."""
    assert sorted(code_in(text_of(twin))) == sorted(code_in(text_of(english_of(twin))))


@pytest.mark.parametrize("twin", TWINS)
def test_the_same_links_to_chinese_pages_where_there_are_any(twin: str) -> None:
    assert links_in(twin) == links_in(english_of(twin))
    directory = PurePosixPath(twin).parent
    for target in LINK.findall(text_of(twin)):
        path = str(directory / target.partition("#")[0])
        assert path.endswith(SUFFIX) or twin_of(path) not in TWINS, f"{target} has a Chinese twin"


@pytest.mark.parametrize("twin", TWINS)
def test_chinese_is_written_as_chinese(twin: str) -> None:
    """Chinese punctuation after Chinese words, one form of address, and no line break that is shown as a blank."""
    lines = words_in(twin)
    assert [line for line in lines if re.search(r"[\u4e00-\u9fff][,;:!?()]", line)] == []
    assert [line for line in lines if "您" in line] == []
    plain = [bool(line) and not line.startswith(("#", "|", "- ")) for line in text_of(twin).splitlines()]
    assert not [number for number in range(1, len(plain)) if plain[number - 1] and plain[number]]
