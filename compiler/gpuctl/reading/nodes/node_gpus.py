"""The GPU resources of a platform, and the node labels that name GPU types.

Jobs select a type by the platform's label ``<domain>/gpu-type``, or by the labels that platform.yaml maps it to. Other
common labels (``nvidia.com/gpu-type``, ``company.com/gpu-model``, ``nvidia.com/gpu.product``) are shown and searched,
but jobs do not select on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from gpuctl.capacity.snapshot.pod_requests import total_of
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.pod_specs import required_node_terms

_NAMES = frozenset({"gpu-type", "gpuType", "gpu_type", "gpu-model", "gpu-product"})
UNKNOWN = "unknown"
"""The type of GPUs on nodes without a type label."""


def selected_gpu_type(spec: Object, key: str) -> str | None:
    """Return the GPU types that a pod selects by a label, as ``A100`` or ``H100 or A100``; None without any."""
    value = (spec.get("nodeSelector") or {}).get(key)
    if value is not None:
        return str(value)
    terms = [term.get("matchExpressions") or [] for term in required_node_terms(spec)]
    named = [[item for item in term if (item.get("key"), item.get("operator")) == (key, "In")] for term in terms]
    if not all(named):
        return None
    return (
        " or ".join(dict.fromkeys(name for term in named for item in term for name in item.get("values") or [])) or None
    )


class PlatformGpus:
    """The GPU resources and labels of a platform.

    :ivar vendors: extended resource of cards or MIG slices -> vendor.
    :ivar cards: extended resources of whole cards.
    :ivar chips: extended resource of cards -> chip; "" for a vendor's main one.
    :ivar shares: the kinds of shares of cards.
    :ivar key: the label that jobs select on.
    """

    def __init__(self, settings: Settings) -> None:
        self.cards = settings.card_resources
        self.shares = tuple(dict.fromkeys(settings.share_resources.values()))
        self.chips = {
            resource: chip
            for chips in settings.gpu_chips.values()
            for chip, gpu in sorted(chips.items())
            for resource in gpu.card.counted
        }
        self.vendors = dict.fromkeys(settings.slice_resources, "nvidia")
        self.vendors |= {name: gpu.vendor for gpu in settings.gpus for name in gpu.card.counted}
        self.key = settings.label("gpu-type")
        self._second = settings.label("gpuType")
        self._products = frozenset(gpu.product_label for gpu in settings.gpus if gpu.product_label)
        self._types = {
            name: {key: [value] if isinstance(value, str) else list(value) for key, value in labels.items()}
            for name, labels in settings.gpu_types.items()
        }
        self._mapped = frozenset(key for labels in self._types.values() for key in labels)

    def count(self, amounts: Mapping[str, Fraction]) -> int:
        """Return the number of GPUs of all vendors among amounts of resources; each MIG slice counts as one."""
        return int(total_of(amounts, self.vendors))

    def is_label(self, key: str) -> bool:
        """Return True if a label names a GPU type."""
        own = key in (self.key, self._second) or key in self._products or key in self._mapped
        return own or key.rpartition("/")[2] in _NAMES

    def selects(self, key: str) -> bool:
        """Return True if jobs with a GPU type select nodes by this label."""
        return key == self.key or key in self._mapped

    def labels(self, node: Object) -> dict[str, str]:
        """Return the labels of a node that name a GPU type, those that jobs select on first."""
        found = {key: value for key, value in labels_of(node).items() if value and self.is_label(key)}
        return {key: found[key] for key in sorted(found, key=self._rank)}

    def type_of(self, node: Object) -> str | None:
        """Return the GPU type of a node: the name that jobs can use if there is one, otherwise a label's value."""
        labels = self.labels(node)
        if self.key in labels:
            return labels[self.key]
        return next(iter([*self._mapped_types(node), *labels.values()]), None)

    def matches(self, node: Object, amounts: Mapping[str, Fraction], wanted: str) -> bool:
        """Return True if a node has GPUs of a type, ignoring case.

        :param amounts: the node's resources.
        :param wanted: a type (``a100-80g``), a label (``KEY=VALUE``), or a type after the prefix of its label or of its
            vendor's resource (``nvidia.com/a100-80g``).
        """
        labels = {key: value.casefold() for key, value in self.labels(node).items()}
        key, equals, value = wanted.partition("=")
        if equals:
            return labels_of(node).get(key, "").casefold() == value.casefold()
        types = {name.casefold() for name in self._mapped_types(node)}
        if wanted.casefold() in types.union(labels.values()):
            return True
        prefix, slash, value = wanted.casefold().rpartition("/")
        if not slash:
            return False
        vendors = {resource.partition("/")[0] for resource in amounts if resource in self.vendors and amounts[resource]}
        if prefix in vendors and value in types.union(labels.values()):
            return True
        return any(key.startswith(f"{prefix}/") and value == text for key, text in labels.items())

    def is_key(self, text: str, nodes: Iterable[Object]) -> bool:
        """Return True if a text is a label key, not a prefix with a type."""
        return "/" in text and "=" not in text and (self.is_label(text) or any(text in labels_of(n) for n in nodes))

    def _rank(self, key: str) -> tuple[int, str]:
        order = [key == self.key, key in self._mapped, key == self._second, key not in self._products, True]
        return order.index(True), key

    def _mapped_types(self, node: Object) -> list[str]:
        have = labels_of(node)
        return [
            name
            for name, labels in self._types.items()
            if all(have.get(key) in values for key, values in labels.items())
        ]
