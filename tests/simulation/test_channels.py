"""Channels of a simulated session."""

from __future__ import annotations

from dex_agents_model.simulation.channels import without


def test_without__takes_each_message_once_and_misses_none_that_is_gone() -> None:
    channels = (("a", ("one", "one", "two")), ("b", ("three",)))

    assert without(channels, (("a", "one"), ("a", "gone"), ("b", "three"), ("c", "one"))) == (
        ("a", ("one", "two")),
    )
