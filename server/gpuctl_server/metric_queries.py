"""The PromQL queries of metrics, with placeholders for names. The settings may replace them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pydantic import BaseModel, ConfigDict, Field, field_validator

_LISTS = frozenset({"pods", "nodes"})
_PLACES = frozenset({"namespace", "job"}) | _LISTS
_STRING = re.compile(
    r"""(?P<operator>=~|!~)?\s*"(?P<text>(?:[^"\\]|\\.)*)"|'(?:[^'\\]|\\.)*'|`[^`]*`""",
    re.DOTALL,
)
_PLACE = re.compile(r"\$([a-z]+)")
# All other characters may have a meaning in a regular expression (RE2).
_PLAIN = re.compile(r"[^A-Za-z0-9_-]")

Value = str | Collection[str]


class MetricQuery(BaseModel):
    """A query, and the text for a single value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: str = Field(
        max_length=10_000,
        description="PromQL that returns one series. $namespace and $job are replaced by names, $pods and $nodes by "
        'regular expressions, all of them within "...". Empty: not measured.',
    )
    text: str = Field(
        "{value}",
        max_length=100,
        pattern=r"^[^{}]*\{value\}[^{}]*$",
        description="Text of a value, such as `{value}ms`.",
    )

    @field_validator("query")
    @classmethod
    def _check(cls, query: str) -> str:
        outside = _STRING.sub(lambda match: "" if match["text"] is not None else match[0], query)
        if found := _PLACE.search(outside):
            raise ValueError(f'{found[0]} must be within "...": outside, the name would be a part of the query')
        for match in _STRING.finditer(query):
            for place in _PLACE.findall(match["text"] or ""):
                if place not in _PLACES:
                    raise ValueError(f"${place} is unknown; known are ${', $'.join(sorted(_PLACES))}")
                if place in _LISTS and not match["operator"]:
                    raise ValueError(f"${place} is a regular expression: it must follow =~ or !~")
        return query

    def filled(self, values: Mapping[str, Value]) -> str:
        """Return the query with names instead of placeholders. Names are escaped, in strings and in regular
        expressions.
        """

        def string(match: re.Match[str]) -> str:
            if match["text"] is None:
                return match[0]
            start = match.start("text") - match.start()
            text = _PLACE.sub(
                lambda place: _put(values[place[1]], pattern=match["operator"] is not None), match["text"]
            )
            return f'{match[0][:start]}{text}"'

        return _STRING.sub(string, self.query)


def _put(value: Value, *, pattern: bool) -> str:
    if not isinstance(value, str):
        # An empty list must match nothing.
        text = "|".join(_PLAIN.sub(_quoted, item) for item in sorted(value)) or "[^\\s\\S]"
    else:
        text = _PLAIN.sub(_quoted, value) if pattern else value
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _quoted(match: re.Match[str]) -> str:
    return "\\n" if match[0] == "\n" else f"\\{match[0]}" if match[0].isascii() else match[0]


def _of_pods(metric: str) -> str:
    """Return a DCGM exporter metric of a job's pods. Unless `honorLabels` is set, Prometheus renames the pod labels."""
    return (
        f'({metric}{{exported_namespace="$namespace",exported_pod=~"$pods"}}'
        f' or {metric}{{namespace="$namespace",pod=~"$pods"}})'
    )


def _of_nodes(metric: str) -> str:
    by_host = f'label_replace({metric}{{Hostname=~"$nodes"}}, "node", "$1", "Hostname", "(.+)")'
    return f'({by_host} or {metric}{{Hostname="",node=~"$nodes"}})'


UTILIZATION, USED, FREE, TOTAL = (f"DCGM_FI_DEV_{name}" for name in ("GPU_UTIL", "FB_USED", "FB_FREE", "FB_TOTAL"))
DEFAULTS: Mapping[str, MetricQuery] = {
    "gpuUtilization": MetricQuery(query=f"avg({_of_pods(UTILIZATION)} <= 100)"),
    "memoryUsage": MetricQuery(query=f"avg({_of_pods(USED)} < 1e15) / 1024"),
    "throughput": MetricQuery(query="", text="{value} tokens/sec"),
    "networkLatency": MetricQuery(query="", text="{value}ms"),
    "memoryTotal": MetricQuery(
        query=f"avg({_of_pods(TOTAL)} < 1e15 or ({_of_pods(USED)} + {_of_pods(FREE)}) < 1e15) / 1024"
    ),
    "nodeUtilization": MetricQuery(query=f"max by (node, gpu) ({_of_nodes(UTILIZATION)} <= 100)"),
    "nodeMemoryUsage": MetricQuery(query=f"max by (node, gpu) ({_of_nodes(USED)} < 1e15) / 1024"),
    "nodeMemoryTotal": MetricQuery(
        query=f"max by (node, gpu) ({_of_nodes(TOTAL)} < 1e15 or ({_of_nodes(USED)} + {_of_nodes(FREE)}) < 1e15) / 1024"
    ),
}
"""Utilization in percent, memory per GPU in GiB; the mean over all GPUs of a job. DCGM reports memory in MiB, and huge
numbers for unknown values.
"""
NO_SERIES = frozenset({"memoryTotal", "nodeUtilization", "nodeMemoryUsage", "nodeMemoryTotal"})
"""Queries for current values only."""
