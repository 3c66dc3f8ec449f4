"""The strategy of a changed service comes from the command, the document, the live object or the platform, in this
order.
"""

from __future__ import annotations

import pytest

from support.cluster_tools import STRATEGY, Document, Place, image, inference, notebook


def service(strategy: str | None = None, tag: str = "v1") -> Document:
    """Return a model server with a strategy and an image tag."""
    return inference(environment=image(tag), service={"strategy": strategy} if strategy else {})


def annotation(place: Place) -> str | None:
    """Return the strategy annotation of the live object; None if it has none."""
    found = place.get("Deployment", "serve")["metadata"]["annotations"].get(STRATEGY)
    return None if found is None else str(found)


def is_rolled(place: Place, document: Document, *flags: str) -> bool:
    """Apply a document; return True if the Deployment was changed in place."""
    uid = place.uid("Deployment", "serve")
    place.apply(document, flags=("--yes", *flags))
    return place.uid("Deployment", "serve") == uid


def test_document_strategy_applies(place: Place) -> None:
    place.apply(service("rolling"))
    assert annotation(place) == "rolling"
    assert is_rolled(place, service("rolling", "v2"))
    assert not is_rolled(place, service("rolling", "v3"), "--strategy=replace")
    # A strategy that changes together with the image applies to this change.
    assert not is_rolled(place, service("replace", "v4"))
    assert is_rolled(place, service("rolling", "v5"))
    # A strategy that the document no longer sets no longer applies.
    assert not is_rolled(place, service(None, "v6"))
    assert annotation(place) is None
    assert not is_rolled(place, service(None, "v7"))


@pytest.mark.slow
def test_strategy_change_alone_restarts_nothing(place: Place) -> None:
    place.apply(service())
    place.running("serve")
    before = place.get("Deployment", "serve")
    for strategy in ("rolling", "replace", None):
        assert is_rolled(place, service(strategy))
        assert annotation(place) == strategy
    # An annotation raises a Deployment's generation, but creates no new pods.
    assert place.get("Deployment", "serve")["spec"] == before["spec"]
    assert set(place.plan(service()).actions.values()) == {"unchanged"}


@pytest.mark.slow
@pytest.mark.parametrize("by_hand", ["rolling", "replace"])
def test_annotation_applies_if_the_document_sets_no_strategy(place: Place, by_hand: str) -> None:
    other = "replace" if by_hand == "rolling" else "rolling"
    place.platform(f"strategy: {other}")
    place.apply(service())
    place.patch("Deployment", "serve", {"metadata": {"annotations": {STRATEGY: by_hand}}})
    assert is_rolled(place, service(None, "v2")) is (by_hand == "rolling")
    assert annotation(place) == by_hand
    # The option takes precedence over the annotation.
    assert is_rolled(place, service(None, "v3"), f"--strategy={other}") is (other == "rolling")
    assert annotation(place) == by_hand
    assert is_rolled(place, service(other, "v4")) is (other == "rolling")
    assert annotation(place) == other


@pytest.mark.slow
def test_platform_strategy_is_the_default(place: Place) -> None:
    place.platform("strategy: rolling")
    place.apply(service(), notebook())
    assert is_rolled(place, service(None, "v2"))
    assert not is_rolled(place, service("replace", "v3"))
    assert annotation(place) == "replace"
