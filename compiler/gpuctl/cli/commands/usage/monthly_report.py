"""``gpuctl usage report``."""

from __future__ import annotations

import re
from dataclasses import replace

import click

from gpuctl.cli.commands.usage.usage_options import UsageSource, open_usage_backend, where_options, zone_named
from gpuctl.cli.options.connection_options import ClusterFailure
from gpuctl.cli.options.platform_option import platform_option, platform_settings
from gpuctl.reading.usage.usage_records import UsageRange
from gpuctl.usecases.usage.month_report_queries import ReportKey, month_range, month_report

_BY = "team"
"""The default key of a report."""


@click.command(
    "report",
    short_help="Print a monthly usage report.",
    epilog="Examples:\n\n  $ gpuctl usage report --month 2026-10 > october.md\n\n"
    "  $ gpuctl usage report --month 2026-10 -o html --tz Asia/Shanghai > october.html\n\n"
    "  $ gpuctl usage report --month 2026-10 --by cost-center --annotation",
)
@click.option("--month", metavar="MONTH", required=True, help="The month, such as 2026-10.")
@click.option("-o", "--output", type=click.Choice(["markdown", "html"]), default="markdown", show_default=True)
@click.option("--by", "key", metavar="KEY", help="Label that identifies the cost center. Default: team.")
@click.option("--annotation", "is_annotation", is_flag=True, help="KEY is an annotation.")
@click.option("--tz", default="UTC", metavar="ZONE", show_default=True, help="Time zone, such as Asia/Shanghai.")
@click.option(
    "--lang",
    "language",
    type=click.Choice(["en", "zh"]),
    default="en",
    show_default=True,
    help="Language of the report.",
)
@platform_option("The platform's settings, with its prices. Default: platform.yaml here or above, up to the git root.")
@where_options
def command(
    month: str,
    output: str,
    key: str | None,
    is_annotation: bool,
    tz: str,
    language: str,
    platform: str | None,
    source: UsageSource,
) -> int:
    """Print a report of a month's GPU usage, by namespace, label, model and workload, and of what is unknown.

    The figures are those of the ledger, rounded so that each column adds up. The report states which part of the month
    is known, whether its figures are final, and when it was made. HTML is one file with its plots, without scripts.
    """
    try:
        from gpuctl.cli.output.usage_report import render_report
    except ModuleNotFoundError as error:
        raise ClusterFailure(
            f"the packages for reports are not installed ({error.name})\n"
            "  = install them: `pip install 'gpuctl-k8s[usage]'`"
        ) from None
    match = re.fullmatch(r"(?a)(\d{4})-(0[1-9]|1[0-2])", month)
    if match is None or not 1970 <= int(match[1]) <= 9998:
        raise click.UsageError(f"--month must be a month such as 2026-10, got `{month[:40]}`.")
    if is_annotation and key is None:
        raise click.UsageError("--annotation needs --by KEY.")
    by = ReportKey(key or _BY, "annotation" if is_annotation else "label", key is None)
    start, end = month_range(int(match[1]), int(match[2]), zone_named(tz))
    with open_usage_backend(source) as backend:
        asked, settings = UsageRange(start, end, tz, source.cluster), platform_settings(platform)
        found = replace(month_report(backend, month, asked, by, settings, backend.now()), language=language)
    click.echo(render_report(found, output), nl=False)
    return 0
