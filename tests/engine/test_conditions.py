"""Waits: which candidate wins and what it takes, on plain values."""

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.conditions import Winner, require_well_formed, winner
from dex_agents_dex.devengine.core.errors import MalformedResult

ALL = pb.WAITING_CONDITION_TYPE_ALL_COMPLETED
ANY = pb.WAITING_CONDITION_TYPE_ANY_COMPLETED
COMBINATION = pb.WAITING_CONDITION_TYPE_ANY_COMBINATION_COMPLETED


def _channel(
    name: str, at_least: int | None = None, at_most: int | None = None, key: str = ""
) -> pb.ChannelCondition:
    return pb.ChannelCondition(
        condition_id=key, channel_name=name, at_least=at_least, at_most=at_most
    )


def _wait(
    kind: pb.WaitingConditionType,
    *channels: pb.ChannelCondition,
    timers: int = 0,
    combinations: tuple[tuple[str, ...], ...] = (),
) -> pb.WaitingCondition:
    return pb.WaitingCondition(
        waiting_condition_type=kind,
        timer_conditions=[pb.TimerCondition(condition_id=f"t{i}") for i in range(timers)],
        channel_conditions=channels,
        condition_combinations=[pb.ConditionCombination(condition_ids=c) for c in combinations],
    )


@pytest.mark.parametrize(
    ("condition", "size", "taken"),
    [
        (_channel("c"), 0, None),
        (_channel("c"), 3, 1),
        (_channel("c", 1, 1), 3, 1),
        (_channel("c", 2), 1, None),
        (_channel("c", 2), 5, 5),
        (_channel("c", 2, 4), 5, 4),
        (_channel("c", None, 4), 0, 0),
        (_channel("c", None, 4), 9, 4),
        (_channel("c", 0, 0), 9, 0),
    ],
)
def test_channel_condition__needs_at_least_and_takes_up_to_at_most(
    condition: pb.ChannelCondition, size: int, taken: int | None
) -> None:
    expected = None if taken is None else Winner({0: taken})
    assert winner(_wait(ALL, condition), [], {"c": size}.__getitem__) == expected


def test_all__reserves_every_minimum_before_it_extends_any() -> None:
    condition = _wait(ALL, _channel("c", 1), _channel("c", 2, 2), _channel("d", 1, 1))
    sizes = {"c": 5, "d": 1}
    assert winner(condition, [], sizes.__getitem__) == Winner({0: 3, 1: 2, 2: 1})
    assert winner(condition, [], {"c": 2, "d": 1}.__getitem__) is None


def test_all__waits_for_its_timers_too() -> None:
    condition = _wait(ALL, _channel("c"), timers=2)
    assert winner(condition, [True, False], {"c": 1}.__getitem__) is None
    assert winner(condition, [True, True], {"c": 1}.__getitem__) == Winner({0: 1})


def test_any__prefers_timers_then_channels_in_declaration_order() -> None:
    condition = _wait(ANY, _channel("c"), _channel("d", 1), timers=1)
    assert winner(condition, [True], {"c": 1, "d": 1}.__getitem__) == Winner({})
    assert winner(condition, [False], {"c": 1, "d": 1}.__getitem__) == Winner({0: 1})
    assert winner(condition, [False], {"c": 0, "d": 4}.__getitem__) == Winner({1: 4})
    assert winner(condition, [False], {"c": 0, "d": 0}.__getitem__) is None


def test_any_combination__takes_the_first_feasible_group() -> None:
    condition = _wait(
        COMBINATION,
        _channel("c", key="c"),
        _channel("d", key="d"),
        timers=1,
        combinations=(("c", "d"), ("t0", "d")),
    )
    assert winner(condition, [True], {"c": 1, "d": 1}.__getitem__) == Winner({0: 1, 1: 1})
    assert winner(condition, [True], {"c": 0, "d": 1}.__getitem__) == Winner({1: 1})
    assert winner(condition, [False], {"c": 0, "d": 1}.__getitem__) is None


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        (_wait(ALL), "at least one condition"),
        (_wait(pb.WAITING_CONDITION_TYPE_UNSPECIFIED, _channel("c")), "unknown kind"),
        (_wait(ALL, _channel("")), "needs a Channel name"),
        (_wait(ALL, _channel("c", -1)), "negative bound"),
        (_wait(ALL, _channel("c", 3, 2)), "at_least exceeds at_most"),
        (_wait(COMBINATION, _channel("c", key="c")), "at least one combination"),
        (_wait(COMBINATION, _channel("c"), combinations=(("c",),)), "an id for every"),
        (_wait(COMBINATION, _channel("c", key="c"), combinations=(("x",),)), "unknown condition"),
        (
            pb.WaitingCondition(sub_flow_conditions=[pb.SubFlowCondition()]),
            "does not implement sub-flow",
        ),
    ],
)
def test_require_well_formed__refuses_what_could_never_be_evaluated(
    condition: pb.WaitingCondition, complaint: str
) -> None:
    with pytest.raises(MalformedResult, match=complaint):
        require_well_formed(condition)
