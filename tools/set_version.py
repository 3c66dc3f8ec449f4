"""Write a new version to every text that names gpuctl's: ``make version VERSION=0.2.0``, before a release.

The version is ``gpuctl.release.__version__``. Images, actions, downloads and pins in documentation and in ``deploy/``
name it too, and the SDKs have a copy, because they do not depend on gpuctl. A test compares all of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = (
    *("README*.md", "action.yml", "docs/**/*.md", "deploy/**/*", "examples/team-repo/**/*", "sdk/*/README*.md"),
    *("compiler/gpuctl/release.py", "sdk/python/gpuctl_sdk/exchange.py", "sdk/go/client.go"),
)
NAMED = re.compile(
    r"""(?: \bgpuctl(?:-server)?: | \bgpuctl(?:/[\w/-]+)?@v | \brev:[ ]v | \bgpuctl_k8s-
    | \bgpuctl-(?=[\d.]+\.(?:tgz|cdx)) | \bgpuctl-(?:k8s|sdk)== | \breleases/download/v | \bnewTag:[ ]
    | ^(?:appVersion|version):[ ] | ^__version__[ ]=[ ]"
    | ^const[ ]Version[ ]=[ ]")(?P<version>\d+\.\d+\.\d+)""",
    re.VERBOSE | re.MULTILINE,
)
"""A version of gpuctl in a text: of an image, an action, a hook, a file of a release, a chart, a pin, a source file."""


def texts() -> Iterator[Path]:
    """Yield the files that can name the version."""
    for pattern in TEXTS:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and path.suffix in {"", ".go", ".md", ".py", ".yaml", ".yml"}:
                yield path


def with_version(text: str, version: str) -> str:
    """Return a text with another version of gpuctl."""

    def replaced(match: re.Match[str]) -> str:
        return match[0][: match.start("version") - match.start()] + version

    return NAMED.sub(replaced, text)


def main(arguments: Sequence[str]) -> int:
    """Rewrite the texts; print the files that changed."""
    if len(arguments) != 1 or not re.fullmatch(r"\d+\.\d+\.\d+", arguments[0]):
        print("set_version: give one version, such as 0.2.0", file=sys.stderr)
        return 2
    for path in texts():
        text = path.read_text(encoding="utf-8")
        changed = with_version(text, arguments[0])
        if changed != text:
            path.write_text(changed, encoding="utf-8")
            print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
