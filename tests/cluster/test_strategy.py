"""How a changed service is changed: as the command, the document, the live object or the platform says, in this order."""

from __future__ import annotations

import pytest

from support.cluster_tools import STRATEGY, Document, Place, image, inference, notebook


def service(strategy: str | None = None, tag: str = "v1") -> Document:
    """A model server that is to be changed so."""
    return inference(environment=image(tag), service={"strategy": strategy} if strategy else {})


def annotation(place: Place) -> str | None:
    """What the live object says."""
    found = place.get("Deployment", "serve")["metadata"]["annotations"].get(STRATEGY)
    return None if found is None else str(found)


def is_rolled(place: Place, document: Document, *flags: str) -> bool:
    """Whether applying a document keeps the Deployment."""
    uid = place.uid("Deployment", "serve")
    place.apply(document, flags=("--yes", *flags))
    return place.uid("Deployment", "serve") == uid


def test_the_document_says_it(place: Place) -> None:
    place.apply(service("rolling"))
    assert annotation(place) == "rolling"
    assert is_rolled(place, service("rolling", "v2"))
    assert not is_rolled(place, service("rolling", "v3"), "--strategy=replace")
    # What is said with a change holds for it.
    assert not is_rolled(place, service("replace", "v4"))
    assert is_rolled(place, service("rolling", "v5"))
    # What the document no longer says is no longer so.
    assert not is_rolled(place, service(None, "v6"))
    assert annotation(place) is None
    assert not is_rolled(place, service(None, "v7"))


@pytest.mark.slow
def test_another_strategy_touches_nothing_that_runs(place: Place) -> None:
    place.apply(service())
    place.running("serve")
    before = place.get("Deployment", "serve")
    for strategy in ("rolling", "replace", None):
        assert is_rolled(place, service(strategy))
        assert annotation(place) == strategy
    # An annotation raises a Deployment's generation, and makes no other pods.
    assert place.get("Deployment", "serve")["spec"] == before["spec"]
    assert set(place.plan(service()).actions.values()) == {"unchanged"}


@pytest.mark.slow
@pytest.mark.parametrize("by_hand", ["rolling", "replace"])
def test_an_annotation_by_hand_holds_where_the_document_says_nothing(place: Place, by_hand: str) -> None:
    place.platform(f"strategy: {'replace' if by_hand == 'rolling' else 'rolling'}")
    place.apply(service())
    place.patch("Deployment", "serve", {"metadata": {"annotations": {STRATEGY: by_hand}}})
    assert is_rolled(place, service(None, "v2")) is (by_hand == "rolling")
    assert annotation(place) == by_hand
    other = "replace" if by_hand == "rolling" else "rolling"
    assert is_rolled(place, service(other, "v3")) is (other == "rolling")
    assert annotation(place) == other


@pytest.mark.slow
def test_the_platform_says_it_for_all_others(place: Place) -> None:
    place.platform("strategy: rolling")
    place.apply(service(), notebook())
    assert is_rolled(place, service(None, "v2"))
    assert not is_rolled(place, service("replace", "v3"))
    assert annotation(place) == "replace"
