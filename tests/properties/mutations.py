"""Mistakes, as people and broken programs make them, put into valid texts. Deterministic: a number is a text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from properties.seed_documents import seeds

NOISE = (
    *("\t", "\0", "\x07", "\x1b[31m", "\x7f", "\x85", "\xa0", "\u2028", "\u2029", "\u200b", "\u202e", "\ufeff"),
    *("\ufffe", "\r", "\r\n", "\n", "\n\n", " ", "  ", "    ", "\x0b", "\x0c", "\ud7ff", "\U0010ffff", "\U0001fffe"),
    *(":", ": ", "- ", "-", "#", " #", "'", '"', "{", "}", "[", "]", ",", "? ", "|", ">", "|2\n", ">-\n", "%", "@"),
    *("`", "!", "!!", "!!int ", "!!str ", "!x ", "&a ", "*a", "&a", "<<: *a", "<<: ", "=", "~", "\\", "\\x", "$$"),
    *("---\n", "\n---\n", "...\n", "\n...\n", "--- |\n", "%YAML 1.1\n---\n", "%TAG ! tag:x,1:\n---\n", "\n\t\n"),
    *("{{", "}}", "{{{{", "{{model.nmae}}", "{{job.name}}", "{{ job . name }}", "{{job.labels}}", "$(A)"),
    *("中", "😀", "é", "e\u0301", "ﷺ", "\u0660", "１", "İ", "ß", "ſ", "K"),
)
VALUES = (
    *("", "null", "~", "Null", "true", "false", "yes", "no", "on", "-1", "0", "1", "+1", "1.0", "0.5", "1e3", "1e999"),
    *("9" * 40, "9" * 5000, "-" + "9" * 30, "2147483647", "2147483648", "9223372036854775808", "0x10", "0o17", "012"),
    *("1_000", "0b1", ".inf", "-.inf", ".nan", "1:30", "2024-01-01", "65536", "٣", "１", "1e-7", "1e400Gi", "0.0"),
    *("[]", "{}", "[a]", "[[]]", "{a: b}", "{a: }", "[~]", "[1, two, {}]", "{? [a] : b}", "{a, b}", "[a: b]"),
    *(
        '""',
        "''",
        "' '",
        '" "',
        '"\\n"',
        '"\\0"',
        '"\\uD800"',
        '"\\x07"',
        '"\\e"',
        "a b",
        "../..",
        "/",
        "//",
        "/a/../b",
    ),
    *(
        "/a:b",
        "./a",
        "a/b/c",
        "128GB",
        "1Gib",
        "1 Gi",
        "1Ei",
        "100Ei",
        "0Gi",
        "-1Gi",
        "5m",
        "1n",
        "1000000d",
        "0s",
        "7d",
    ),
    *(
        "{{job.name}}",
        "{{job.nam}}",
        "{{environment.image}}",
        "{{service.port}}",
        "{{resources.gpu}}",
        '"{{job.name}}"',
    ),
    *("'{{environment.args}}'", "'{{environment.args.0}}'", "'{{environment.env.0.value}}'", "'{{ messages }}'"),
    *("*x", "&x y", "&x", "*a", "!!int 3", "!!str 3", "!!binary aGk=", "!!set {a}", "!foo", "! 3", "$$", "$(HOME)"),
    *(
        "x" * 64,
        "x" * 300,
        "x" * 5000,
        "A-B",
        "-a",
        "a-",
        "a_b",
        "a.b",
        "A.b/c",
        "kube-system",
        "default",
        "中文",
        "😀",
    ),
    *(
        "|\n  a\n   b\n",
        ">\n  a\n",
        "|+\n\n",
        "|9\n  a",
        "# only a comment",
        "a # b",
        "'unclosed",
        '"unclosed',
        "[a, b",
    ),
    *("nvidia", "amd", "hami", "volcano", "jobset", "NodePort", "nodeport", "High", "v0.2", "v0.1", "training", "pool"),
    *(
        "sh -c 'a'",
        "[bash, -c, 'a && b']",
        "[deepspeed, x]",
        "[llamafactory-cli, train]",
        "latest",
        "a:b:c",
        "a@b",
        "nginx",
    ),
)

_KEY = re.compile(r"^(?P<head>[ \t]*(?:- )*)(?P<key>[^\s:#'\"{}\[\]-][^:#{}\[\]]*):(?P<rest>[ \t].*|)$")
_FLOW_VALUE = re.compile(r"(?<=: )[^,{}\[\]\n]+(?=[,}])")

Mutation = Callable[[random.Random, str], str]


def mutated(number: int) -> str:
    """A valid text with one to five mistakes."""
    generator = random.Random(number)
    text = generator.choice(seeds())
    for _ in range(generator.choice((1, 1, 1, 2, 2, 3, 5))):
        text = generator.choice(MUTATIONS)(generator, text)
    return text


def mutated_bytes(number: int) -> bytes:
    """The same as bytes, some of them broken."""
    generator = random.Random(f"bytes {number}")
    data = bytearray(mutated(number).encode("utf-8", "surrogatepass"))
    for _ in range(generator.randint(0, 3)):
        place = generator.randrange(len(data) + 1)
        data[place : place + generator.randint(0, 2)] = generator.randbytes(generator.randint(0, 3))
    return generator.choice((b"", b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xef\xbb")) + bytes(data)


def _on_lines(change: Callable[[random.Random, list[str]], None]) -> Mutation:
    def mutate(generator: random.Random, text: str) -> str:
        lines = text.split("\n")
        change(generator, lines)
        return "\n".join(lines)

    return mutate


def _delete(generator: random.Random, lines: list[str]) -> None:
    start = generator.randrange(len(lines))
    del lines[start : start + generator.choice((1, 1, 1, 2, 5))]


def _duplicate(generator: random.Random, lines: list[str]) -> None:
    start = generator.randrange(len(lines))
    block = lines[start : start + generator.choice((1, 1, 3))]
    place = generator.choice((start, generator.randrange(len(lines) + 1)))
    lines[place:place] = block


def _swap(generator: random.Random, lines: list[str]) -> None:
    one, two = generator.randrange(len(lines)), generator.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]


def _indent(generator: random.Random, lines: list[str]) -> None:
    index = generator.randrange(len(lines))
    count = generator.choice((1, 1, 4))
    change = generator.choice(("  ", " ", "\t", " \t", "        ", "out", "one"))
    for number in range(index, min(index + count, len(lines))):
        line = lines[number]
        if change == "out":
            lines[number] = line.lstrip()
        elif change == "one":
            lines[number] = line.removeprefix(" ")
        else:
            lines[number] = change + line


def _replace_value(generator: random.Random, lines: list[str]) -> None:
    """A value becomes another, in block or flow style."""
    chosen = [index for index, line in enumerate(lines) if _KEY.match(line)]
    if not chosen:
        return
    index = generator.choice(chosen)
    match = _KEY.match(lines[index])
    assert match is not None, "was chosen because it matches"
    lines[index] = f"{match['head']}{match['key']}: {generator.choice(VALUES)}"


def _replace_flow_value(generator: random.Random, text: str) -> str:
    places = list(_FLOW_VALUE.finditer(text))
    if not places:
        return text
    place = generator.choice(places)
    return text[: place.start()] + generator.choice(VALUES) + text[place.end() :]


def _replace_item(generator: random.Random, lines: list[str]) -> None:
    chosen = [index for index, line in enumerate(lines) if line.lstrip().startswith("- ")]
    if chosen:
        index = generator.choice(chosen)
        head = lines[index].partition("- ")[0]
        lines[index] = f"{head}- {generator.choice(VALUES)}"


def _misspell(generator: random.Random, lines: list[str]) -> None:
    chosen = [index for index, line in enumerate(lines) if _KEY.match(line)]
    if not chosen:
        return
    index = generator.choice(chosen)
    match = _KEY.match(lines[index])
    assert match is not None, "was chosen because it matches"
    key = match["key"]
    place = generator.randrange(len(key))
    key = generator.choice(
        (
            key[:place] + key[place + 1 :],
            key[:place] + key[place] + key[place:],
            key[:place] + generator.choice("abcXYZ_-.1 é中") + key[place + 1 :],
            key.upper(),
            key.replace("-", "_"),
            key.replace("_", ""),
            f'"{key}"',
            f"? {key}\n{match['head']}",
            generator.choice(_ALL_KEYS),
        )
    )
    lines[index] = f"{match['head']}{key}:{match['rest']}"


def _add_key(generator: random.Random, lines: list[str]) -> None:
    """A line with a key that some document has, where it may not belong."""
    index = generator.randrange(len(lines) + 1)
    pad = re.match(" *", lines[index - 1] if index else "")
    lines.insert(index, f"{pad[0] if pad else ''}{generator.choice(_ALL_KEYS)}: {generator.choice(VALUES)}")


def _noise(generator: random.Random, text: str) -> str:
    place = generator.randrange(len(text) + 1)
    return text[:place] + generator.choice(NOISE) * generator.choice((1, 1, 1, 3)) + text[place:]


def _any_character(generator: random.Random, text: str) -> str:
    place = generator.randrange(len(text) + 1)
    highest = generator.choice((0x20, 0x80, 0x100, 0x3000, 0xD800, 0x110000))
    code = generator.randrange(highest)
    character = chr(code) if not 0xD800 <= code < 0xE000 else " "
    return text[:place] + character + text[place + generator.randint(0, 1) :]


def _truncate(generator: random.Random, text: str) -> str:
    place = generator.randrange(len(text) + 1)
    return generator.choice((text[:place], text[place:]))


def _cut(generator: random.Random, text: str) -> str:
    start = generator.randrange(len(text) + 1)
    return text[:start] + text[start + generator.choice((1, 1, 1, 3, 20)) :]


def _flip_quotes(generator: random.Random, text: str) -> str:
    places = [match.start() for match in re.finditer("['\"]", text)]
    if not places:
        return text
    place = generator.choice(places)
    other = generator.choice(("", "'", '"', "\\'", '\\"', "''", '""', "`"))
    return text[:place] + other + text[place + 1 :]


def _splice(generator: random.Random, text: str) -> str:
    other = generator.choice(seeds())
    return text[: generator.randrange(len(text) + 1)] + other[generator.randrange(len(other) + 1) :]


def _join(generator: random.Random, text: str) -> str:
    """Two sources in one stream."""
    between = generator.choice(("\n---\n", "\n...\n---\n", "---\n", "\n--- # next\n", "\n---\r\n", "\n"))
    return text + between + generator.choice(seeds())


def _line_ends(generator: random.Random, text: str) -> str:
    if generator.random() < 0.5:
        return text.replace("\n", generator.choice(("\r\n", "\r", "\n\n", "\n\t\n", " \n", "\t\n", "\n \t \n")))
    lines = text.split("\n")
    return "".join(line + generator.choice(("\n", "\r\n", "\r", "\n", "\n")) for line in lines)


def _alias(generator: random.Random, lines: list[str]) -> None:
    """An anchor at one value and an alias at another."""
    chosen = [index for index, line in enumerate(lines) if _KEY.match(line)]
    if len(chosen) < 2:
        return
    one, two = sorted(generator.sample(chosen, 2))
    if generator.random() < 0.2:
        one, two = two, one
    for index, form in ((one, "{key}: &q {rest}"), (two, generator.choice(("{key}: *q", "<<: *q", "*q : {rest}")))):
        match = _KEY.match(lines[index])
        assert match is not None, "was chosen because it matches"
        lines[index] = match["head"] + form.format(key=match["key"], rest=match["rest"].strip())


def _deep(generator: random.Random, lines: list[str]) -> None:
    """Return a value that is nested too deeply, or aliases that multiply."""
    chosen = [index for index, line in enumerate(lines) if _KEY.match(line)]
    if not chosen:
        return
    index = generator.choice(chosen)
    match = _KEY.match(lines[index])
    assert match is not None, "was chosen because it matches"
    depth = generator.choice((3, 60, 63, 64, 65, 500))
    bomb = "[" + "&b0 x, " + ", ".join(f"&b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 9)) + "]"
    value = generator.choice(("[" * depth + "]" * depth, "{a: " * depth + "1" + "}" * depth, bomb, "[" * depth))
    lines[index] = f"{match['head']}{match['key']}: {value}"


def _keys_of_seeds() -> tuple[str, ...]:
    keys = {match["key"].strip() for text in seeds() for line in text.split("\n") if (match := _KEY.match(line))}
    keys |= {key for text in seeds() for key in re.findall(r"(?<=[{,] )[\w.-]+(?=:)|(?<=\{)[\w.-]+(?=:)", text)}
    return tuple(sorted(key for key in keys if len(key) < 40))


_ALL_KEYS = _keys_of_seeds()
MUTATIONS: tuple[Mutation, ...] = (
    *(_on_lines(change) for change in (_delete, _duplicate, _swap, _indent, _misspell, _misspell, _alias, _deep)),
    *(_on_lines(change) for change in (_replace_value, _replace_value, _replace_value, _replace_item, _add_key)),
    *(_replace_flow_value, _noise, _noise, _any_character, _truncate, _cut, _flip_quotes, _splice, _join, _line_ends),
)
