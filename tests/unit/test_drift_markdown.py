"""The Markdown of a drift report: no text from the cluster works in a comment on a pull request."""

from __future__ import annotations

import re

from gpuctl.apply.plan.drift_detection import Drift, DriftedField, DriftedObject
from gpuctl.apply.state.managed_fields import FieldHolder
from gpuctl.cli.output.drift_lines import drift_markdown
from gpuctl.objects.api_resources import Key

HOSTILE = "@team [x](http://evil) <img src=x> a|b ``c` *d* https://evil.example www.evil.example a@evil.example"


def test_texts_from_the_cluster_are_escaped() -> None:
    field = DriftedField(
        "metadata.labels[team]", HOSTILE, "nlp", (FieldHolder(HOSTILE, "Apply", "2026-01-01T00:00:00Z"),)
    )
    there = DriftedObject("differs", Key("Job", "nlp", "a"), fields=[field])
    gone = DriftedObject("gone", Key("Job", "nlp", "b"), reason=HOSTILE)
    drift = Drift([there, gone], problems=[f"job/c: {HOSTILE}"])
    lines = list(drift_markdown(drift, "https://cluster", HOSTILE, "0123456789abcdef"))
    text = "\n".join(lines).replace("\\`", "")
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    for sign in ("@team", "[x](", "<img", " *d", "://", "www.", "a@evil"):
        assert not re.search(rf"(?<!\\){re.escape(sign)}", outside), sign
    rows = [line for line in lines if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}, "no text is a column of its own"
    shown = HOSTILE.replace("|", "\\|")
    assert f'| ```"{shown}"``` | `"nlp"` |' in rows[2]
