"""Faults in compaction."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from dex_agents_model.decision import SetSummary
from dex_agents_model.effects import CallModel, Entered, HistorySummarized
from dex_agents_model.steps import CompactHistory, RunModel, Step

from ..planting import Rule, decisions, going, row, without, writing
from .planted import PlantedFault


def _telling_less(rule: Rule, *given: object) -> object:
    reaction = rule(*given)
    if not isinstance(reaction, CallModel):
        return reaction
    return evolve(reaction, messages=reaction.messages[1:])


def _cutting_a_turn(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(
        evolve(s, through_sequence=s.through_sequence - 1) if isinstance(s, CompactHistory) else s
        for s in steps
    )


def _taking_the_running_turn(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(
        evolve(s, through_sequence=s.through_sequence + 1) if isinstance(s, CompactHistory) else s
        for s in steps
    )


FAULTS: Final = (
    PlantedFault(
        "a summary stands for the running turn",
        decisions(RunModel, Entered, going(_taking_the_running_turn)),
        "compaction",
        "a summary ends between turns",
    ),
    PlantedFault(
        "the model is not told the oldest message",
        row(RunModel, Entered, _telling_less),
        "compaction",
        "the model is told everything once",
    ),
    PlantedFault(
        "a summary cuts a turn in two",
        decisions(RunModel, Entered, going(_cutting_a_turn)),
        "compaction",
        "a summary ends between turns",
    ),
    PlantedFault(
        "a summary is not stored",
        decisions(CompactHistory, HistorySummarized, writing(without(SetSummary))),
        "compaction",
        "the model is told everything once",
    ),
)
