"""The texts of the console's pages, as its modules have them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from gpuctl_server.console import static_files

FILES = Path(static_files.__file__).parent / "files"
_LITERAL = r'"((?:[^"\\]|\\.)*)"'
_CALL = re.compile(rf"\bt\({_LITERAL}")
_COUNTED = re.compile(rf"\bcounted\([^\"]*?{_LITERAL},\s*{_LITERAL}")
_CHOICE = re.compile(rf"\bt\([^()\"]*\?\s*{_LITERAL}\s*:\s*{_LITERAL}")
_LISTED = re.compile(r"/\* texts \*/ [\[{(]+(.*?)[\]})]+;", re.DOTALL)
_PAIR = re.compile(rf"^\s*{_LITERAL}:\s*{_LITERAL},?$", re.MULTILINE)


def texts() -> set[str]:
    """Return all English texts: arguments of `t`, and lists that are marked with `/* texts */`."""
    found: set[str] = set()
    for path in FILES.rglob("*.js"):
        if "vendor" in path.parts or path.name == "zh.js":
            continue
        source = path.read_text(encoding="utf-8")
        found |= {match[1] for match in _CALL.finditer(source)}
        for pattern in (_COUNTED, _CHOICE):
            found |= {text for match in pattern.finditer(source) for text in match.groups()}
        for match in _LISTED.finditer(source):
            found |= set(re.findall(_LITERAL, match[1]))
    return {json.loads(f'"{text}"') for text in found}


def chinese() -> dict[str, str]:
    """Return the Chinese of the texts."""
    source = (FILES / "zh.js").read_text(encoding="utf-8")
    return {json.loads(f'"{english}"'): json.loads(f'"{said}"') for english, said in _PAIR.findall(source)}
