"""Plain scalars of a podPatch mean to gpuctl what they mean to kubectl's reader."""

from __future__ import annotations

import random

import gpuctl
from gpuctl.frontend.kubectl_numbers import read_number
from properties.readers import read_go, same

_HAND = (
    *("0400", "0o400", "0O17", "0_400", "00", "0", "-0", "+12", "-012", "-0o17", "08", "0800", "0_8", "010.5", "0o8"),
    *("0x1F", "0X1f", "0x_1F", "0b101", "0B1", "-0b11", "0b2", "0x", "0b", "0o", "-0x1F", "+0x1F", "1:30", "２"),
    *("1_000", "1_", "_1", "1__0", "-1_000", "1_0.5", "._5", ".5_0", "5.", ".5", "+.5", "1e5", "1E+5", "12e03", "."),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1e400", "--1"),
    *("-9223372036854775808", "-9223372036854775809", "+9223372036854775808", "2001-01-01", "1.2.3", "4Gi", "500m"),
)


def _texts() -> list[str]:
    generator = random.Random("numbers")
    made = {"".join(generator.choices("0011278_.+-eExXoObBfF", k=generator.randint(1, 7))) for _ in range(4000)}
    # These begin YAML's own constructs, or are its words.
    return [*_HAND, *sorted(text for text in made if text[0] not in "fF" and text not in ("-", "+"))]


def test_scalars_are_read_as_kubectl_reads_them() -> None:
    texts = [text for text in _texts() if not text.startswith(("-", "...")) or text[1:2].strip("-")]
    numbers = 0
    for text, go in zip(texts, read_go([f"a: {text}\n" for text in texts]), strict=True):
        ours = read_number(text)
        numbers += ours is not None
        assert same(text if ours is None else ours, go["a"]), f"{text}: {ours!r}, kubectl reads {go['a']!r}"
    assert numbers > 150


def test_file_modes_keep_their_value() -> None:
    for written, mode in (("0400", 256), ("0o640", 416), ("0x1ff", 511), ("256", 256), ("0_400", 256)):
        text = (
            "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment: {image: app:1}\npodPatch:\n"
            f"  volumes: [{{name: keys, secret: {{secretName: ssh, defaultMode: {written}}}}}]\n"
        )
        result = gpuctl.compile(gpuctl.Source("demo.yaml", text), shared=False)
        assert result.ok
        pod = result.objects[-1]["spec"]["template"]["spec"]
        assert pod["volumes"][0]["secret"]["defaultMode"] == mode
