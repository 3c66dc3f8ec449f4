"""English and Chinese pages have the same structure, code, tables and links."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from support.pages import ROOT, blocks, prose, read

SUFFIX = ".zh-CN.md"
CHINESE_PAGES = sorted(
    str(path.relative_to(ROOT))
    for directory in (ROOT, ROOT / "docs", ROOT / "docs" / "paths", ROOT / "examples", ROOT / ".github")
    for path in directory.glob(f"*{SUFFIX}")
)

CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def english_of(chinese: str) -> str:
    """Return the English page of a Chinese one."""
    return chinese.removesuffix(SUFFIX) + ".md"


def chinese_of(page: str) -> str:
    """Return the Chinese page of an English one."""
    return page.removesuffix(".md") + SUFFIX


def text_of(page: str) -> str:
    """Return a page without fenced blocks and without its language switch."""
    switch = {switch_in(page)}
    return "\n".join(line for line in prose(page).splitlines() if line not in switch)


def switch_in(page: str) -> str:
    """Return the language switch of a page: its line with the link to the other language."""
    if page.endswith(SUFFIX):
        return f"[English]({PurePosixPath(english_of(page)).name}) | 简体中文"
    return f"English | [简体中文]({PurePosixPath(chinese_of(page)).name})"


def code_in(text: str) -> list[str]:
    """Return everything in backticks, also where it is wrapped."""
    return [" ".join(code.split()) for code in CODE.findall(text)]


def cells(row: str) -> list[str]:
    """Return the cells of a table row."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def lines_like(mark: str, page: str) -> list[str]:
    """Return the lines of a page that begin with a mark."""
    return [line for line in text_of(page).splitlines() if line.startswith(mark)]


def links_in(page: str) -> list[str]:
    """Return the link targets of a page without the language suffix and without the heading."""
    return sorted(
        target if target.startswith("https://") else target.partition("#")[0].replace(SUFFIX, ".md")
        for target in LINK.findall(text_of(page))
    )


def words_in(page: str) -> list[str]:
    """Return the lines of a page without what no language translates: code, addresses, quotations, comments."""
    text = re.sub(r"<!--.*?-->", "", text_of(page), flags=re.DOTALL)
    for same in (CODE, re.compile(r"\]\([^)]*\)"), re.compile(r'"[^"\n]*"')):
        text = same.sub("", text)
    return text.splitlines()


def test_each_page_for_users_has_a_chinese_page() -> None:
    pages = {
        str(path.relative_to(ROOT))
        for directory in (ROOT / "docs", ROOT / "docs" / "paths")
        for path in directory.glob("*.md")
        if not path.name.endswith(SUFFIX)
    }
    pages |= {"README.md", "examples/README.md"}
    assert {page for page in pages if chinese_of(page) not in CHINESE_PAGES} == set()


@pytest.mark.parametrize("chinese", CHINESE_PAGES)
def test_pages_have_the_same_content(chinese: str) -> None:
    """They link to each other. Headings, rows and items are in the same order; headings that name a field or a file are
    not translated. Each row is about the same command, option, code or field, and has the same code. Elsewhere code is
    in any order: the order of words differs between languages.
    """

    def shape(page: str) -> list[str]:
        return [mark.strip() for mark in re.findall(r"^(#+ |\||- )", text_of(page), re.MULTILINE)]

    english = english_of(chinese)
    for page in (chinese, english):
        assert read(page).splitlines()[2] == switch_in(page)
    assert blocks(chinese) == blocks(english)
    assert shape(chinese) == shape(english)
    for heading, original in zip(lines_like("#", chinese), lines_like("#", english), strict=True):
        assert code_in(heading) == code_in(original)
        assert heading == original or not re.fullmatch(r"#+ [a-z]\S*", original)
    for row, original in zip(lines_like("|", chinese), lines_like("|", english), strict=True):
        assert len(cells(row)) == len(cells(original)), row
        assert code_in(cells(row)[0]) == code_in(cells(original)[0])
        assert sorted(code_in(row)) == sorted(code_in(original)), row
    assert sorted(code_in(text_of(chinese))) == sorted(code_in(text_of(english)))
    assert links_in(chinese) == links_in(english)
    directory = PurePosixPath(chinese).parent
    for target in LINK.findall(text_of(chinese)):
        path = str(directory / target.partition("#")[0])
        assert path.endswith(SUFFIX) or chinese_of(path) not in CHINESE_PAGES, f"{target} has a Chinese page"


@pytest.mark.parametrize("chinese", CHINESE_PAGES)
def test_chinese_punctuation_and_line_breaks(chinese: str) -> None:
    """Chinese punctuation after Chinese words, one form of address, and no line break that renders as a blank."""
    lines = words_in(chinese)
    assert [line for line in lines if re.search(r"[\u4e00-\u9fff][,;:!?()]", line)] == []
    assert [line for line in lines if "您" in line] == []
    plain = [bool(line) and not line.startswith(("#", "|", "- ")) for line in text_of(chinese).splitlines()]
    assert not [number for number in range(1, len(plain)) if plain[number - 1] and plain[number]]
