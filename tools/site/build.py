"""Build the site of the documentation, English and Chinese, from docs/ and the pages that it links to: ``make site``.

MkDocs builds each language from a directory of its own, in which a page has one name in both languages. Links between
the languages, and to files outside of docs/, are written as HTML, because MkDocs knows only the pages of one build.
Files that pages link to are shown as pages of the English site, except JSON, which is copied.

The result works from files and loads nothing from other hosts. Each page is also there as Markdown, and ``llms.txt``
lists them.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import mkdocs.commands.build
import mkdocs.config
import mkdocs.exceptions

ROOT = Path(__file__).resolve().parents[2]
CHINESE = ".zh-CN.md"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NOTE = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SWITCH = re.compile(r"^(English \| \[简体中文\]\(.*\)|\[English\]\(.*\) \| 简体中文)\n\n", re.MULTILINE)


class Section(NamedTuple):
    """A part of the navigation: its title in both languages, and its pages by their paths in the repository."""

    english: str
    chinese: str
    pages: tuple[str, ...]


NAVIGATION = (
    Section("Start here", "从这里开始", ("docs/README.md", "README.md")),
    Section(
        "Paths",
        "学习路径",
        tuple(
            f"docs/paths/{name}.md"
            for name in (
                "first-training",
                "from-slurm",
                "from-docker",
                "fine-tune",
                "several-nodes",
                "serving",
                "when-it-fails",
                "platform-first-week",
            )
        ),
    ),
    Section(
        "Guides",
        "指南",
        ("docs/recipes.md", "examples/README.md", "docs/daily.md", "docs/cluster.md", "docs/usage.md"),
    ),
    Section("GitOps", "GitOps", ("docs/gitops.md", "docs/gitops-health.md")),
    Section(
        "Operation",
        "运维",
        (
            "docs/service.md",
            "docs/console.md",
            "docs/operations.md",
            "docs/upgrades.md",
            "docs/threat-model.md",
            "SECURITY.md",
        ),
    ),
    Section(
        "Reference",
        "参考",
        (
            "docs/reference.md",
            "docs/diagnostics.md",
            "docs/usage-numbers.md",
            "docs/library.md",
            "docs/sdk.md",
            "sdk/python/README.md",
            "sdk/go/README.md",
            "docs/glossary.md",
            "CHANGELOG.md",
        ),
    ),
    Section(
        "Design",
        "设计",
        (
            "CONTRIBUTING.md",
            "tests/README.md",
            *(
                f"docs/design/{name}.md"
                for name in ("README", "language", "lowering", "cluster", "fit", "service", "usage", "layout")
            ),
        ),
    ),
)


def repository_pages() -> list[str]:
    """Return the pages of the navigation that exist, and of docs/ those that it does not list, English names only."""
    listed = [page for section in NAVIGATION for page in section.pages if (ROOT / page).exists()]
    found = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))]
    return listed + [page for page in found if not page.endswith(CHINESE) and page not in listed]


def twin_of(page: str) -> str | None:
    """Return the Chinese page of an English one, if it exists."""
    twin = page.removesuffix(".md") + CHINESE
    return twin if (ROOT / twin).exists() else None


def site_path(page: str) -> str:
    """Return where a page of the repository is in the site of its language."""
    page = page.removesuffix(CHINESE) + ".md" if page.endswith(CHINESE) else page
    if page == "docs/README.md":
        return "index.md"
    if page.startswith("docs/"):
        page = page.removeprefix("docs/")
        return page.replace("README.md", "index.md")
    return {"README.md": "overview.md"}.get(page, page.replace("/README.md", "/index.md").lower())


class Site:
    """Both languages: the pages, and the files outside of them that pages link to."""

    def __init__(self, staging: Path) -> None:
        self.staging = staging
        self.pages = repository_pages()
        self.sources: dict[str, str] = {}

    def stage(self) -> None:
        """Write the directories that MkDocs builds."""
        shutil.rmtree(self.staging, ignore_errors=True)
        for page in self.pages:
            self._write("en", site_path(page), self._converted(page, "en"))
            if (twin := twin_of(page)) is not None:
                self._write("zh", site_path(page), self._converted(twin, "zh"))
        while pending := [source for source, text in self.sources.items() if not text]:
            for source in pending:
                self.sources[source] = self._source_page(source)
                self._write("en", f"source/{source}.md", self.sources[source])

    def _write(self, language: str, name: str, text: str) -> None:
        path = self.staging / language / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _converted(self, page: str, language: str) -> str:
        """Return the text of a page without notes for tests, with links as the site needs them."""
        text = SWITCH.sub("", NOTE.sub("", (ROOT / page).read_text(encoding="utf-8")), count=1)
        fences = FENCE.findall(text)
        codes: list[str] = []

        def hidden(match: re.Match[str]) -> str:
            codes.append(match[0])
            return f"\0{len(codes) - 1}\0"

        text = CODE.sub(hidden, FENCE.sub("\1", text))
        text = LINK.sub(lambda match: self._link(page, language, match[1], match[2]), text)
        text = re.sub(r"\0(\d+)\0", lambda match: codes[int(match[1])], text)
        pieces = text.split("\1")
        return "".join(piece + fence for piece, fence in zip(pieces, [*fences, ""], strict=True))

    def _link(self, page: str, language: str, text: str, target: str) -> str:
        """Return a link of the site for a link of the repository."""
        if target.startswith(("https://", "http://", "#")):
            return f"[{text}]({target})"
        name, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), name))
        if (ROOT / path).is_dir() and f"{path}/README.md" in self.pages:
            path = f"{path}/README.md"
        here = site_path(page)
        english = path.removesuffix(CHINESE) + ".md" if path.endswith(CHINESE) else path
        fragment = f"#{anchor}" if anchor else ""
        if english in self.pages:
            to = "zh" if path.endswith(CHINESE) else "en"
            if to == language:
                return f"[{text}]({posixpath.relpath(site_path(path), posixpath.dirname(here) or '.')}{fragment})"
            html = site_path(path).removesuffix(".md") + ".html"
        else:
            to, html = "en", self._source_link(path)
        there, mine = ("zh/" if side == "zh" else "" for side in (to, language))
        return (
            f'<a href="{posixpath.relpath(there + html, posixpath.dirname(mine + here) or ".")}{fragment}">{text}</a>'
        )

    def _source_link(self, path: str) -> str:
        """Return the address in the English site of a file or directory of the repository."""
        if path.endswith(".json"):
            target = self.staging / "en" / "source" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, target)
            return f"source/{path}"
        self.sources.setdefault(path, "")
        return f"source/{path}.html"

    def _source_page(self, path: str) -> str:
        """Return a page that shows a file, or lists a directory."""
        head = f"---\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n"
        if (ROOT / path).is_file():
            text = (ROOT / path).read_text(encoding="utf-8")
            fence = "`" * (3 + max((len(run) for run in re.findall(r"^`{3,}", text, re.MULTILINE)), default=0))
            language = {".yml": "yaml", ".yaml": "yaml", ".py": "python", ".sql": "sql"}.get(Path(path).suffix, "text")
            return f"{head}{fence}{language}\n{text.rstrip()}\n{fence}\n"
        entries = sorted(entry for entry in (ROOT / path).iterdir() if not entry.name.startswith((".", "__")))
        links = []
        for entry in entries:
            name = str(entry.relative_to(ROOT))
            address = posixpath.relpath(self._source_link(name), posixpath.dirname(f"source/{path}"))
            links.append(f'- <a href="{address}">{entry.name}{"/" if entry.is_dir() else ""}</a>\n')
        return head + "".join(links)

    def build(self, output: Path, *, strict: bool) -> None:
        """Run MkDocs for both languages, and add the Markdown of the pages."""
        for language, directory in (("en", output), ("zh", output / "zh")):
            self._build_language(language, directory, strict=strict)
        lines = ["# gpuctl\n\nShort YAML documents about GPU jobs, compiled to Kubernetes manifests.\n"]
        for language, prefix in (("en", ""), ("zh", "zh/")):
            lines.append(f"\n## {'English' if language == 'en' else '中文'}\n\n")
            for page in self.pages:
                staged = self.staging / language / site_path(page)
                if staged.exists():
                    shutil.copy(staged, output / prefix / site_path(page))
                    lines.append(f"- [{_title(staged)}]({prefix}{site_path(page)})\n")
        (output / "llms.txt").write_text("".join(lines), encoding="utf-8")

    def _build_language(self, language: str, directory: Path, *, strict: bool) -> None:
        chinese = language == "zh"
        exists = {page for page in self.pages if not chinese or twin_of(page)}
        nav = []
        for section in NAVIGATION:
            pages = [site_path(page) for page in section.pages if page in exists]
            if pages:
                nav.append({section.chinese if chinese else section.english: pages})
        both = {page for page in self.pages if twin_of(page)}
        config = mkdocs.config.load_config(
            str(ROOT / "tools" / "site" / "mkdocs.yml"),
            docs_dir=str(self.staging / language),
            site_dir=str(directory),
            nav=nav,
            strict=strict,
        )
        config.theme.language = "zh" if chinese else "en"
        config.extra["other_language"] = "English" if chinese else "简体中文"
        config.extra["homepage"] = "index.html"
        config.extra["other_home"] = "../index.html" if chinese else "zh/index.html"
        config.extra["twins"] = {site_path(page): _to_twin(site_path(page), chinese) for page in both}
        # Source pages are reached from the pages that link to them.
        config.validation.nav.omitted_files = 20 if not chinese else config.validation.nav.omitted_files
        mkdocs.commands.build.build(config)


def _to_twin(page: str, chinese: bool) -> str:
    """Return the link from a page to the one in the other language."""
    html = page.removesuffix(".md") + ".html"
    up = "../" * html.count("/")
    return f"{up}../{html}" if chinese else f"{up}zh/{html}"


def _title(page: Path) -> str:
    match = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else page.stem


def main() -> int:
    """Build the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=ROOT / "site", metavar="DIR", help="default: site")
    parser.add_argument("--staging", type=Path, default=ROOT / "build" / "site", metavar="DIR")
    parser.add_argument("--strict", action="store_true", help="fail on warnings")
    arguments = parser.parse_args()
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    site = Site(arguments.staging.resolve())
    site.stage()
    try:
        site.build(arguments.output.resolve(), strict=arguments.strict)
    except mkdocs.exceptions.MkDocsException as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
