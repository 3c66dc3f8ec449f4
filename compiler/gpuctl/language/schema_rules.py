"""Rules of the JSON Schemas beyond types: patterns and messages of text, and fields that depend on each other."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.language import amount_fields, code_block, fields, path_fields, sweep_block
from gpuctl.language.autoscaling_block import OwnMetric
from gpuctl.language.checkpoint_block import Checkpoint
from gpuctl.language.cron import MACROS
from gpuctl.language.environment_block import EnvSource, EnvVar, VariableSource
from gpuctl.language.fields import Block
from gpuctl.language.platform_document import ClusterIdentity, StorageDefault
from gpuctl.language.pool_document import PoolDocument
from gpuctl.language.quota_document import QuotaDocument
from gpuctl.language.route_blocks import RouteSettings
from gpuctl.language.storage_block import MOUNT_SOURCES, VolumeMount
from gpuctl.language.topology_block import Topology
from gpuctl.language.value_forms import Checks, checks_of

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_QUALIFIED = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_AMOUNT = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_SUFFIX = "(?:[KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?"
_POSITIVE_QUANTITY = rf"^\+?(?=[0-9.]*[1-9]){_AMOUNT}{_SUFFIX}$"
_CRON_FIELD = "[A-Za-z0-9*?,/-]+"
_END = r"(?![\s\S])"
TEMPLATE = r"|\{\{"
# yaml-language-server reads the plain key 1e30 as a number and passes it to patterns as JavaScript prints it.
NUMERIC_KEY = r"|^-?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Infinity)$"


class TextRule(NamedTuple):
    """The JSON Schema rules of a type of text; never stricter than its check.

    ``types``: the YAML types that legal text may look like: ``1e3`` is a legal DNS label, but no duration is a number.
    ``says``: the editor's message.
    """

    pattern: str | None
    longest: int | None
    types: tuple[str, ...]
    says: str | None
    minimum: int | None = None


_ANY = ("string", "number", "boolean")
_NUMBER = ("string", "number")
_WORD = ("string", "boolean")
_TEXT = ("string",)
_DNS = "lower-case letters, digits and `-`"

TEXT_RULES: dict[Checks, TextRule] = {
    checks_of(alias): rule
    for alias, rule in (
        (fields.Text, TextRule(None, None, _ANY, None)),
        (fields.NonEmpty, TextRule(r"[^\t-\r ]", None, _ANY, "Write text that is not empty.")),
        (
            fields.JobName,
            TextRule(
                "^[a-z](?:[-a-z0-9]*[a-z0-9])?$",
                63,
                _WORD,
                f"Not a legal job name: at most 63 {_DNS}, starting with a letter and not ending in `-`.",
            ),
        ),
        (
            fields.DnsLabel,
            TextRule(f"^{_LABEL}$", 63, _ANY, f"Not a legal name: at most 63 {_DNS}, not starting or ending in `-`."),
        ),
        (
            fields.ObjectName,
            TextRule(
                f"^{_SUBDOMAIN}$",
                253,
                _ANY,
                "Not a legal object name: at most 253 lower-case letters, digits, `-` and `.`.",
            ),
        ),
        (
            fields.NamespacedName,
            TextRule(f"^{_LABEL}/{_SUBDOMAIN}$", 317, _TEXT, "Not a name with its namespace such as `infra/public`."),
        ),
        (
            fields.LabelKey,
            TextRule(
                f"^(?:{_SUBDOMAIN}/)?{_QUALIFIED}$",
                317,
                _ANY,
                "Not a legal key: an optional DNS prefix and `/`, then at most 63 letters, digits, `-`, `_` and `.`.",
            ),
        ),
        (
            fields.LabelValue,
            TextRule(
                f"^(?:{_QUALIFIED})?$",
                63,
                _ANY,
                "Not a legal label value: at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both "
                "ends.",
            ),
        ),
        (
            fields.RequiredLabelValue,
            TextRule(
                f"^{_QUALIFIED}$",
                63,
                _ANY,
                "Not a legal label value: 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both "
                "ends.",
            ),
        ),
        (fields.Domain, TextRule(f"^{_SUBDOMAIN}$", 253, _ANY, "Not a DNS domain such as `gpu.example.com`.")),
        (
            fields.EnvName,
            TextRule(
                r"^(?:[-_a-zA-Z]|\.[-_a-zA-Z0-9])[-._a-zA-Z0-9]*$",
                None,
                _ANY,
                "Not a legal variable name: letters, digits, `_`, `-` and `.`, not starting with a digit.",
            ),
        ),
        (
            fields.PortName,
            TextRule(
                "^(?=[-0-9]*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*$",
                15,
                _ANY,
                "Not a legal port name: at most 15 lower-case letters, digits and single `-`, with a letter.",
            ),
        ),
        (
            amount_fields.DeviceCount,
            TextRule("^(?:true|false|[1-9][0-9]{0,8})$", None, _ANY, "Not a number of devices, `true` or `false`.", 1),
        ),
        (
            amount_fields.Quantity,
            TextRule(
                rf"^(?:\+?{_AMOUNT}|-(?:0+(?:\.0*)?|\.0+)){_SUFFIX}$",
                64,
                _NUMBER,
                "Not a Kubernetes quantity such as `500m`, `2` or `128Gi`.",
                0,
            ),
        ),
        (
            amount_fields.PositiveQuantity,
            TextRule(_POSITIVE_QUANTITY, 64, _NUMBER, "Not a Kubernetes quantity such as `500m`, `2` or `128Gi`.", 0),
        ),
        (
            amount_fields.Memory,
            TextRule(_POSITIVE_QUANTITY, 64, _NUMBER, "Not an amount of memory such as `512Mi` or `128Gi`.", 4 * 2**20),
        ),
        (
            amount_fields.Share,
            TextRule(
                rf"{_POSITIVE_QUANTITY}|^(?=[0-9.]*[1-9])(?:100(?:\.0{{1,3}})?|[0-9]{{1,2}}(?:\.[0-9]{{1,3}})?)%$",
                64,
                _NUMBER,
                "Neither an amount of GPU memory such as `2Gi` nor a fraction of a card such as `0.5` or `50%`.",
                0,
            ),
        ),
        (
            amount_fields.GpuMemory,
            TextRule(
                rf"^(?:>=)?\s*{_POSITIVE_QUANTITY.removeprefix('^')}",
                64,
                _NUMBER,
                "Not a minimum of memory such as `>=40Gi`.",
            ),
        ),
        (
            amount_fields.Duration,
            TextRule("^(?:[0-9]+[dhms])+$", 32, _TEXT, "Not a duration such as `30s`, `45m`, `12h` or `7d`."),
        ),
        (
            amount_fields.PositiveDuration,
            TextRule(
                "^(?=.*[1-9])(?:[0-9]+[dhms])+$", 32, _TEXT, "Not a duration such as `30s`, `45m`, `12h` or `7d`."
            ),
        ),
        (
            amount_fields.Percentage,
            TextRule(
                r"^(?=[^%]*[1-9])(?:100(?:\.0{1,3})?|[0-9]{1,2}(?:\.[0-9]{1,3})?) ?%?$",
                16,
                _NUMBER,
                "Not a percentage of more than 0 such as `5%`.",
            ),
        ),
        (
            path_fields.AbsolutePath,
            TextRule(
                r"^(?:/(?!\.{1,2}(?:/|$))[^/:\x00-\x1f\x7f]+)+/?$",
                4096,
                _TEXT,
                "Not an absolute, normalised path such as `/data/models`.",
            ),
        ),
        (
            path_fields.RelativePath,
            TextRule(
                rf"^(?!/)(?!(?:[\s\S]*/)?\.\.(?:/|{_END}))[\s\S]",
                None,
                _ANY,
                "Not a relative path inside the volume, without `..`.",
            ),
        ),
        (
            code_block.CodePath,
            TextRule(
                r"^(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\x00-\x1f\x7f]+$",
                None,
                _ANY,
                "Not a relative path inside the repository, without `..`.",
            ),
        ),
        (
            code_block.LocalPath,
            TextRule(
                r"^(?![/~])(?! *$)[^\x00-\x1f\x7f\\]+$",
                None,
                _ANY,
                "Not a path relative to the file.",
            ),
        ),
        (code_block.Sha256, TextRule("^[0-9a-f]{64}$", 64, _ANY, "Not a SHA-256.")),
        (
            code_block.GitUrl,
            TextRule(
                r"^[A-Za-z0-9_][A-Za-z0-9_.:/@~%+-]*$",
                None,
                _TEXT,
                "Not the address of a git repository such as `https://git.example.com/nlp/train.git`.",
            ),
        ),
        (
            code_block.GitRef,
            TextRule("^[A-Za-z0-9_][A-Za-z0-9_./+-]*$", 250, _ANY, "Not a commit, branch or tag."),
        ),
        (path_fields.FileMode, TextRule("^0[0-7]{3}$", 4, _NUMBER, "Not an octal file mode such as `0644`.")),
        (
            fields.Capability,
            TextRule("^(?!CAP_)[A-Z][A-Z_]*$", None, _WORD, "Not a capability such as `IPC_LOCK`."),
        ),
        (
            fields.GpuProfile,
            TextRule(
                r"^[1-7]g\.[1-9][0-9]{0,3}gb(?:\+[a-z]+(?:\.[a-z]+)?|-me)?$",
                None,
                _TEXT,
                "Not a MIG profile such as `1g.10gb`.",
            ),
        ),
        (path_fields.UrlPath, TextRule(r"^/[^\x00-\x20\x7f]*$", None, _TEXT, "Not a URL path such as `/health`.")),
        (
            path_fields.RoutePath,
            TextRule(
                r"^(?![\s\S]*(?://|/\.{1,2}(?:/|$)|%2[fF]))/[!-\"\x24->@-~]*$",
                1024,
                _TEXT,
                "Not a URL path such as `/v1`.",
            ),
        ),
        (
            amount_fields.CountOrPercent,
            TextRule(
                "^(?:[0-9]{1,9}|(?:100|[0-9]{1,2})%)$", 9, _NUMBER, "Not a number or percentage such as `1` or `25%`."
            ),
        ),
        (fields.PodField, TextRule(r"^(metadata|spec|status)\.", None, _TEXT, "Not a field such as `status.podIP`.")),
        (fields.DataKey, TextRule(r"^(?!\.\.)(?!\.$)[-._a-zA-Z0-9]+$", 253, _ANY, "Not a legal key.")),
        (fields.Server, TextRule(r"^[-A-Za-z0-9_.:\[\]]+$", 255, _ANY, "Not the name or address of a server.")),
        (
            fields.ServerUrl,
            TextRule(
                r"^[hH][tT][tT][pP][sS]?://(?:\[[0-9a-fA-F:.]+\]|[-a-zA-Z0-9_.]+)(?::[0-9]{1,5})?(?:/[^\s?#@]*)?$",
                None,
                _TEXT,
                "Not the address of an API server such as `https://api.example.com:6443`.",
            ),
        ),
        (
            fields.Uid,
            TextRule("^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", 36, _TEXT, "Not a uid."),
        ),
        (
            fields.Date,
            TextRule(
                "^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$", 10, _TEXT, "Not a date such as `2026-10-01`."
            ),
        ),
        (
            fields.TimeZone,
            TextRule(
                "^[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}$",
                None,
                _TEXT,
                "Not a time zone such as `Asia/Shanghai`.",
            ),
        ),
        (
            fields.Cron,
            TextRule(
                rf"^\s*(?:{'|'.join(MACROS)}|{_CRON_FIELD}(?:\s+{_CRON_FIELD}){{4}})\s*$",
                None,
                _ANY,
                "Not a cron expression such as `0 2 * * *`.",
            ),
        ),
        (
            fields.Image,
            TextRule(
                r"^(?![-/:@])[^\x00-\x20]*[^\x00-\x20/:@]$",
                None,
                _ANY,
                "Not an image reference such as `registry/team/name:tag`.",
            ),
        ),
        (
            sweep_block.ParameterName,
            TextRule(
                "^[A-Za-z_][A-Za-z0-9_-]*$",
                None,
                _ANY,
                "Not a legal name of a parameter: letters, digits, `_` and `-`, first a letter.",
            ),
        ),
    )
}


class Need(NamedTuple):
    """A rule between the keys of a block: if ``present`` are written, one of ``wants`` is required."""

    present: tuple[str, ...]
    wants: tuple[str, ...]


_OF_VARIABLES = (Need(("secret",), ("key",)), Need(("configMap",), ("key",)), Need(("key",), ("secret", "configMap")))

NEEDS: dict[type[Block], tuple[Need, ...]] = {
    EnvVar: (Need((), ("value", "secret", "configMap", "fieldRef")), *_OF_VARIABLES),
    VariableSource: (Need((), ("secret", "configMap", "fieldRef")), *_OF_VARIABLES),
    OwnMetric: (Need((), ("name", "query")),),
    code_block.Code: (Need((), ("git", "local")), Need(("git",), ("ref",))),
    Checkpoint: (Need((), ("command", "signal")),),
    Topology: (Need((), ("required", "preferred")),),
    EnvSource: (Need((), ("secret", "configMap")),),
    VolumeMount: (Need((), MOUNT_SOURCES),),
    RouteSettings: (Need((), ("gateway", "ingress")), Need(("listener",), ("gateway",)), Need(("secret",), ("tls",))),
    StorageDefault: (Need((), ("pvc", "nfs")),),
    ClusterIdentity: (Need((), ("server", "context", "uid")),),
    PoolDocument: (Need((), ("pool", "metadata")),),
    QuotaDocument: (Need((), ("quota", "metadata")), Need((), ("users", "namespace"))),
}
"""The models' rules that depend only on which keys are written, besides their exclusions."""
