"""What all bodies and answers have in common: names as the product's documents spell them, and no others."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Answer(BaseModel):
    """What is answered."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class Body(BaseModel):
    """What is sent: a number is no string, and a string no number."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)
