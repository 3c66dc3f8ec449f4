"""Closeness of the nodes of a training, and the levels of closeness that a platform defines."""

from pydantic import Field, model_validator

from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, DnsLabel, LabelKey, empty_list
from gpuctl.language.sentences import Template, say


class Topology(Block):
    """Closeness of the pods of a training. Give one of the two."""

    exclusions = one_of(
        "required",
        "preferred",
        message=Template("`required` and `preferred`: both are given"),
        hint=Template("write one of them"),
        at="",
    )

    required: DnsLabel | None = Field(
        None, description="Level within which all pods run. Until it has room, they wait.", examples=["rack"]
    )
    preferred: DnsLabel | None = Field(
        None, description="Level within which the pods run if it has room.", examples=["rack"]
    )

    @model_validator(mode="after")
    def _one_level(self) -> "Topology":
        refuse_exclusions(self)
        if self.required is None and self.preferred is None:
            message = say("`required` and `preferred`: none is given")
            raise field_error("GPU213", message, say("write one of them"), ())
        return self

    @property
    def level(self) -> str:
        """The name of the level."""
        return self.required or self.preferred or ""


class TopologyLevel(Block):
    """A level of closeness, such as a rack: the nodes with the same value of a label."""

    name: DnsLabel = Field(description="Name of the level in `resources.topology`.", examples=["rack"])
    label: LabelKey = Field(
        description="Node label whose value names the node's rack, block or the like. In a Kueue queue it is a level "
        "of the Topology of the queue's flavors.",
        examples=["topology.example.com/rack"],
    )


class TopologySettings(Block):
    """Topology of the nodes."""

    levels: list[TopologyLevel] = Field(
        default_factory=empty_list,
        description="Levels of closeness, the widest first. `host`, one node, exists without being listed.",
        examples=[[{"name": "rack", "label": "topology.example.com/rack"}]],
    )

    @model_validator(mode="after")
    def _unique_names(self) -> "TopologySettings":
        seen = set()
        for index, level in enumerate(self.levels):
            if level.name in seen:
                message = say("the level `{name}` is defined twice", name=level.name)
                raise field_error("GPU213", message, say("rename one"), ("levels", index, "name"))
            seen.add(level.name)
        return self
