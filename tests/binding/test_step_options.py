"""What every Step tells Dex: results that are never replayed, and retries that cannot fail a session by themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import dex
import pytest

from dex_agents_dex.port import SessionBinding
from dex_agents_dex.steps import STEP_CLASSES
from dex_agents_model.steps import Step
from dex_agents_model.table import SPEC_OF


def options_of(step: type[Step]) -> dex.StepOptions:
    no_binding = cast("SessionBinding", None)  # options are of the table alone
    return STEP_CLASSES[step](no_binding).get_step_options()


@pytest.mark.parametrize("step", SPEC_OF, ids=lambda step: step.__name__)
def test_step__is_durable_before_anybody_goes_on(step: type[Step]) -> None:
    options = options_of(step)

    assert options.wait_for_durability is dex.StepDurability.SYNC
    assert options.execute_durability is dex.StepDurability.SYNC


@pytest.mark.parametrize("step", SPEC_OF, ids=lambda step: step.__name__)
def test_step__without_a_failure_route_never_exhausts_its_retries(step: type[Step]) -> None:
    options = options_of(step)

    for retry in (options.wait_for_retry, options.execute_retry):
        assert retry is not None
        assert retry.maximum_interval == timedelta(seconds=30)
        assert retry.total_duration is not None
        if SPEC_OF[step].limits.on_exhausted is None:
            assert retry.maximum_attempts == 0
            assert retry.total_duration > timedelta(days=3_000)
        else:
            assert retry.maximum_attempts in (1, 3)
