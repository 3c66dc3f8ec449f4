"""The rules of deploy/prometheus-adapter, and what the adapter makes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from support.deployments import DEPLOY


class AdapterRule(NamedTuple):
    """A rule: the metric of pods that it makes, the series that it is for, and its query's template."""

    metric: str
    series: str
    labels: dict[str, str]
    template: str

    def query(self, namespace: str, *pods: str) -> str:
        """Return the adapter's Prometheus query for some pods, by the labels that represent them here."""
        matchers = f'{self.labels["namespace"]}="{namespace}",{self.labels["pod"]}=~"{"|".join(pods)}"'
        name = self.series.partition("{")[0] or self.series.split('"')[1]
        query = self.template.replace("<<.LabelMatchers>>", matchers).replace("<<.GroupBy>>", self.labels["pod"])
        return query.replace("<<.Series>>", name)


def adapter_rules() -> list[AdapterRule]:
    """All of them, in order."""
    values: dict[str, Any] = yaml.load((DEPLOY / "prometheus-adapter" / "values.yaml").read_text(), yaml.CSafeLoader)
    return [
        AdapterRule(
            rule["name"]["as"],
            rule["seriesQuery"],
            {what["resource"]: label for label, what in rule["resources"]["overrides"].items()},
            rule["metricsQuery"],
        )
        for rule in values["rules"]["custom"]
    ]
