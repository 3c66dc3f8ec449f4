"""Our own writer of YAML scalars: one string in every style that can carry it.

By the grammar of YAML 1.2.2, chapters 6 to 8, on the safe side of it. Not a library's, because a library writes what
it can read itself, and because people write what no library would.
"""

from __future__ import annotations

import random
import re

STYLES = ("plain", "single", "double", "folded double", "literal", "folded")
_PRINTABLE = "\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_ON_A_LINE = re.compile(f"[\t\x85{_PRINTABLE}]*")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_SHORT_ESCAPES = {
    "\0": "0",
    "\x07": "a",
    "\x08": "b",
    "\t": "t",
    "\n": "n",
    "\x0b": "v",
    "\x0c": "f",
    "\r": "r",
    "\x1b": "e",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "\x85": "N",
    "\xa0": "_",
    "\u2028": "L",
    "\u2029": "P",
}


def write(text: str, style: str, column: int, generator: random.Random, *, flow: bool = False) -> str | None:
    """The text as a scalar in a style, or None where the style cannot carry it.

    ``column`` is that of the key, or of the dash, that the scalar stands behind; ``flow`` says whether it is inside of
    ``[...]`` or ``{...}``, where there are no blocks.
    """
    indent = generator.randint(1, 4)
    pad = " " * (column + indent)
    if style == "plain":
        return text if _is_plain(text, flow) else None
    if style == "single":
        return _single(text, pad)
    if style == "double":
        return '"' + "".join(_escaped(character, generator) for character in text) + '"'
    if style == "folded double":
        return _folded_double(text, pad, generator)
    if flow:
        return None
    return _literal(text, indent, pad, generator) if style == "literal" else _folded(text, indent, pad, generator)


def _is_plain(text: str, flow: bool) -> bool:
    """``ns-plain`` on one line; a null is left out, since text fields refuse it."""
    if text in _NULLS or not _ON_A_LINE.fullmatch(text) or text.strip(" \t") != text:
        return False
    if flow and text[:1] in ("?", ":"):
        # YAML 1.1 reads them as indicators inside brackets, and so does libyaml: gpuctl reports an error there.
        return False
    inside = ",[]{}" if flow else ""
    if text[0] in "-?:":
        if len(text) < 2 or text[1] in " \t" + inside:
            return False
    elif text[0] in ",[]{}#&*!|>'\"%@`":
        return False
    if re.search(r":(?:[ \t]|\Z)|[ \t]#", text) or any(character in inside for character in text):
        return False
    # Never at the start of a line here, but a person would quote them.
    return text not in ("---", "...")


def _single(text: str, pad: str) -> str | None:
    """Each newline of the text is an empty line more, where no blanks are around it."""
    lines = text.split("\n")
    if not all(_ON_A_LINE.fullmatch(line) for line in lines) or re.search(r"[ \t]\n|\n[ \t]", text):
        return None
    if len(lines) > 1 and (text[0] in " \t\n" or text[-1] in " \t\n"):
        return None
    return "'" + re.sub("\n+", lambda match: match[0] + "\n" + pad, text.replace("'", "''")) + "'"


def _folded_double(text: str, pad: str, generator: random.Random) -> str:
    """Over several lines: escaped line breaks, which leave nothing, and blanks that are line breaks."""
    parts: list[str] = []
    for index, character in enumerate(text):
        before, after = text[index - 1 : index], text[index + 1 : index + 2]
        if character == " " and before.strip(" \t\n") and after.strip(" \t\n"):
            parts.append(generator.choice((" ", "\n" + pad, "\\ ", "\\x20")))
        else:
            parts.append(_escaped(character, generator))
        # A blank next to a break would be taken for indentation.
        if generator.random() < 0.2 and character not in " \t" and after not in (" ", "\t"):
            parts.append("\\\n" + pad)
    return '"' + "".join(parts) + '"'


def _literal(text: str, indent: int, pad: str, generator: random.Random) -> str | None:
    return _block("|", text, text, indent, pad, generator)


def _folded(text: str, indent: int, pad: str, generator: random.Random) -> str | None:
    """Breaks between lines of text are doubled, blanks between words may be breaks; lines with blanks in front stay out."""
    if re.search(r"(?:\A|\n)[ \t]", text):
        return None
    stripped = text.rstrip("\n")
    body = re.sub(r"(?<=[^\n])\n+(?=[^\n])", lambda match: match[0] + "\n", stripped)
    body = re.sub(r"(?<=[^ \t\n]) (?=[^ \t\n])", lambda _: generator.choice(" \n"), body)
    return _block(">", text, body + text[len(stripped) :], indent, pad, generator)


def _block(style: str, text: str, body: str, indent: int, pad: str, generator: random.Random) -> str | None:
    if not text.strip("\n") or not all(_ON_A_LINE.fullmatch(line) for line in text.split("\n")):
        return None
    ending = len(text) - len(text.rstrip("\n"))
    header = "-" if ending == 0 else generator.choice(("", "+")) if ending == 1 else "+"
    lines = body.split("\n") if ending == 0 else body.split("\n")[:-1]
    first = next(line for line in lines if line)
    if first[0] in " \t" or not first.strip(" ") or generator.random() < 0.2:
        # Without it the blanks in front would be taken for indentation.
        header = generator.choice((f"{header}{indent}", f"{indent}{header}"))
    return f"{style}{header}\n" + "\n".join(pad + line if line else "" for line in lines)


def _escaped(character: str, generator: random.Random) -> str:
    """A character raw where that is legal, or as one of its escapes."""
    code = ord(character)
    raw = _ON_A_LINE.fullmatch(character) is not None and character not in '"\\'
    if raw and generator.random() < 0.9:
        return character
    forms = [f"\\U{code:08x}", f"\\U{code:08X}"]
    if code < 0x10000:
        forms.append(f"\\u{code:04x}")
    if code < 0x100:
        forms.append(f"\\x{code:02X}")
    if character in _SHORT_ESCAPES:
        forms.append("\\" + _SHORT_ESCAPES[character])
    return generator.choice(forms)
