"""Strings that some reader or writer of YAML gets wrong, and strategies that are biased to them."""

from __future__ import annotations

from hypothesis import strategies as st

_LIKE_OTHER_TYPES = r"""
0 1 -1 +1 007 012 0o14 0o755 0O7 0x1F 0X1f 0b101 0B1 1_000 1_ _1 1e5 2e-5 1E5 1e+3 1e-4 .5 5. 1.0 -0 -.5 +.5 +12e03 e5
1.e5 1.5.2 1e 1e1e1 685.230_15e+03 1,000 190:20:30 12:30:45 1:30 1:60 20:30:15.5 :30 1: 00 0.0 0e0 0x 0o 0b 0o8 0xg
.inf -.inf +.inf .Inf .INF .nan .NaN .NAN nan NaN inf Inf -inf Infinity -Infinity ~ null Null NULL nUll nil none None
true True TRUE tRue false False FALSE yes Yes YES no No NO on On ON off Off OFF y Y n N t f T F
2024-01-01 2024-1-1 24-01-01 2024-01-01T00:00:00Z 2001-12-14t21:59:43.10-05:00 2001-12-14 0001-01-01 2024-13-45
<< = ! !! - -- --- ---- ... .... ? : , | > |- >- |2 # & * % @ ` ~ " ' [ ] { } [] {} "" '' \ // /
-a --lr --lr=2e-5 -1a -.5a - -- ?a :a a: a:b ::a a::b :: #a a#b &a *a !a !!str %a @a `a {a} [a] a] a} ,a a, |a >a "a 'a a" it's
{{ }} {{{{ {{x}} $(A) $$ $${A} ${A} $A \n \\ \t %YAML %s 100% 128Gi 500m 1.5Gi 5M 1k 7d 12h 30s 0s 00s 01Gi 1.5.0
http://x:80/a?b=c#d registry.example.com:5000/a/b:v1@sha256:abc /data/x C:\dir key=value a;b a&&b a|b <a> (a) 1/2 1-2 v1 1a
中文 中文：说明 （a） é e´ ß İ ı ſ Å ﬁ 😀 👩‍👩‍👧 🇨🇳 ١٢٣ １２ ⅷ ² ½ ∞ … — « 。 ， ☃ \u0041 \x41 &amp; <script>
"""
_WITH_BLANKS = (
    *("", " ", "  ", "\t", " \t", "a ", " a", "  a", "a  b", "a\t", "\ta", "a\tb", "a \t", "\xa0", "\xa0a", "a\xa0"),
    *(
        "- a",
        "-  a",
        "? a",
        ": a",
        "a: b",
        "a : b",
        "a :b",
        "a #b",
        "a # b",
        "# a",
        "!!str a",
        "& a",
        "* a",
        "| a",
        "> a",
    ),
    *("{ a }", "[ a ]", "a, b", "{a: b}", "{{ x }}", "{{ messages }}", "a {{ x", "--- a", "... a", "a --- b", "- - a"),
    *("2001-12-14 21:59:43.10 -5", "1 000", "0 ", " 0", "~ ", " null", "yes ", "x y z", "\u3000a\u3000", "a\u2003b"),
    *('say "x"', 'it\'s "both"', "\\ ", " \\", "a\\ b", "a' b", "' '", '" "', "%YAML 1.1", "%TAG ! x", "! a", "@ a"),
)
_WITH_LINES = (
    *("\n", "\n\n", "a\n", "a\n\n", "\na", "\n\na", "a\nb", "a\nb\n", "a\n\nb", "a\n\n\nb\n\n\n", "a\n b\n", " a\nb"),
    *(
        " a\n b",
        "a\n\tb",
        "\ta\nb",
        "a \nb",
        "a\t\nb",
        "a\n ",
        "a\n \nb",
        "a\n \n",
        " \n",
        "\n ",
        "\t\n",
        "\n\t",
        "a\n\t",
    ),
    *("a\r\nb", "a\rb", "\r", "\r\n", "a\r", "\ra", "a\n\rb", "---\na", "a\n---\n", "a\n---\nb", "a\n...\nb", "...\n"),
    *(
        "a: b\nc: d\n",
        "- a\n- b\n",
        "# a\nb",
        "a\n# b",
        "#!/bin/bash\nset -e\necho \"$1\" | tee 'x'\n",
        "%a\n",
        "a\n%b",
    ),
    *(
        "line\n" * 300,
        "a\n" + "  b\n" * 5,
        "|\n  a",
        ">-\n  a\n",
        "{\n}",
        "[\n]",
        '"a\nb"',
        "'a\nb'",
        "a \\\nb",
        "a\\\n",
    ),
)
_HIDDEN = (
    *(
        "\x00",
        "\x01",
        "\x07",
        "\x08",
        "\x0b",
        "\x0c",
        "\x1b",
        "\x1b[0m",
        "\x1f",
        "\x7f",
        "\x80",
        "\x85",
        "\x9f",
        "\xad",
    ),
    *(
        "a\x85b",
        "\x85a",
        "a\x85",
        "a\u2028b",
        "\u2028",
        "a\u2029b",
        "a\u2029",
        "\ufeff",
        "\ufeffa",
        "a\ufeffb",
        "a\ufeff",
    ),
    *(
        "\u200b",
        "a\u200db",
        "\u200e",
        "\u202ea",
        "\u2060",
        "\u2066a\u2069",
        "\ufff9",
        "\ufffc",
        "\ufffd",
        "\ufffe",
        "\uffff",
    ),
    *("\ud7ff", "\ue000", "\uf8ff", "\U00010000", "\U0001fffe", "\U0001ffff", "\U000e0001", "\U000e0041", "\U0010fffe"),
    *(
        "\U0010ffff",
        "\u0301",
        "a\u0301",
        "\u0300a",
        "\u034f",
        "\u061c",
        "\u115f",
        "\u180e",
        "\u3164",
        "\ufe0f",
        "\ufdd0",
    ),
)
_LONG = (
    "x" * 2000,
    "x " * 1000,
    "x: " * 700,
    "'\"" * 1000,
    "中" * 2000,
    "😀" * 600,
    "ab\n" * 700,
    "\\" * 2000,
    " " * 2000,
)

NASTY: tuple[str, ...] = tuple(
    dict.fromkeys([*_LIKE_OTHER_TYPES.split(), *_WITH_BLANKS, *_WITH_LINES, *_HIDDEN, *_LONG])
)
"""The table: every one of them is tried, in every place, by every reader."""

ANY_CHARACTER = st.characters(exclude_categories=["Cs"])
_INDICATORS = "-?:,[]{}#&*!|>'\"%@`~=<.\\/$()"
_PIECES = st.one_of(
    st.sampled_from([text for text in NASTY if len(text) < 60]),
    st.text(ANY_CHARACTER, max_size=8),
    st.text(st.sampled_from(_INDICATORS + " \t\nab01"), max_size=8),
    st.text(st.sampled_from(" \t\n\r\x85\u2028\u2029\ufeff\xa0ab"), max_size=6),
    st.text(st.sampled_from("+-.0123456789_:eExXoObBaAfF"), min_size=1, max_size=9),
    st.text(st.sampled_from("0123456789-:T tZz.+"), min_size=6, max_size=24),
    st.sampled_from(["yes", "no", "on", "off", "true", "false", "null", "y", "n", "nan", "inf"]).flatmap(
        lambda word: st.tuples(*(st.sampled_from([letter, letter.upper()]) for letter in word)).map("".join)
    ),
)
STRINGS: st.SearchStrategy[str] = st.one_of(
    _PIECES,
    _PIECES,
    st.lists(_PIECES, min_size=2, max_size=4).map("".join),
    st.tuples(_PIECES, st.integers(100, 700)).map(lambda pair: (pair[0] * pair[1])[:2000]),
)
"""Any string without surrogates; most are short and unpleasant."""
