"""What must hold after every commit, one named checker each. Use them on your own policies and runners.

A checker looks at one change of the world. It knows the session's promises, and nothing of the
rules that keep them.
"""

from typing import Final

from .approvals import (
    accepted_answers_are_applied,
    approval_comes_before_running,
    each_decision_is_kept_once,
    each_decision_says_how_it_was_made,
    late_answers_are_refused,
    questions_mirror_the_calls_that_wait,
    timely_answers_are_accepted,
)
from .calls import (
    a_write_that_started_is_not_called_cancelled,
    a_write_that_started_is_not_called_failed,
    each_call_has_one_result,
    model_is_called_after_all_results,
    no_rule_is_surprised,
    no_runner_breaks_its_contract,
    nothing_of_a_cancelled_turn_starts,
    one_control_branch_is_live,
    single_attempt_tools_start_once,
    tools_start_only_when_allowed,
)
from .checker import Invariant, named
from .compaction import a_summary_ends_between_turns, the_model_is_told_everything_once
from .given import steering_reaches_the_model_in_order, the_model_is_given_the_whole_turn
from .history import (
    a_completed_turn_stores_its_calls,
    a_turn_without_answer_tells_what_ran,
    an_ended_turn_leaves_nothing,
    each_stored_call_has_its_result,
    messages_have_no_gap,
    steering_enters_history_once,
    steering_goes_ahead_of_the_queue,
    stored_messages_never_change,
    the_end_of_a_turn_is_told_when_durable,
    usage_is_the_sum_of_committed_calls,
    user_messages_are_taken_once_in_order,
)
from .numbers import a_repeated_request_is_answered_as_before, turn_numbers_are_never_reused

INVARIANTS: Final[tuple[Invariant, ...]] = (
    no_rule_is_surprised,
    no_runner_breaks_its_contract,
    nothing_of_a_cancelled_turn_starts,
    turn_numbers_are_never_reused,
    a_repeated_request_is_answered_as_before,
    one_control_branch_is_live,
    each_call_has_one_result,
    model_is_called_after_all_results,
    single_attempt_tools_start_once,
    tools_start_only_when_allowed,
    a_write_that_started_is_not_called_failed,
    a_write_that_started_is_not_called_cancelled,
    questions_mirror_the_calls_that_wait,
    approval_comes_before_running,
    each_decision_is_kept_once,
    each_decision_says_how_it_was_made,
    accepted_answers_are_applied,
    late_answers_are_refused(),
    timely_answers_are_accepted(),
    user_messages_are_taken_once_in_order,
    messages_have_no_gap,
    stored_messages_never_change,
    each_stored_call_has_its_result,
    steering_enters_history_once,
    steering_goes_ahead_of_the_queue,
    a_completed_turn_stores_its_calls,
    a_turn_without_answer_tells_what_ran,
    an_ended_turn_leaves_nothing,
    usage_is_the_sum_of_committed_calls,
    the_model_is_told_everything_once,
    the_model_is_given_the_whole_turn,
    steering_reaches_the_model_in_order,
    a_summary_ends_between_turns,
    the_end_of_a_turn_is_told_when_durable,
)
"""Every promise that is checked after each simulated commit."""

__all__ = [
    "INVARIANTS",
    "Invariant",
    "a_completed_turn_stores_its_calls",
    "a_repeated_request_is_answered_as_before",
    "a_summary_ends_between_turns",
    "a_turn_without_answer_tells_what_ran",
    "a_write_that_started_is_not_called_cancelled",
    "a_write_that_started_is_not_called_failed",
    "accepted_answers_are_applied",
    "an_ended_turn_leaves_nothing",
    "approval_comes_before_running",
    "each_call_has_one_result",
    "each_decision_is_kept_once",
    "each_decision_says_how_it_was_made",
    "each_stored_call_has_its_result",
    "late_answers_are_refused",
    "messages_have_no_gap",
    "model_is_called_after_all_results",
    "named",
    "no_rule_is_surprised",
    "no_runner_breaks_its_contract",
    "nothing_of_a_cancelled_turn_starts",
    "one_control_branch_is_live",
    "questions_mirror_the_calls_that_wait",
    "single_attempt_tools_start_once",
    "steering_enters_history_once",
    "steering_goes_ahead_of_the_queue",
    "steering_reaches_the_model_in_order",
    "stored_messages_never_change",
    "the_end_of_a_turn_is_told_when_durable",
    "the_model_is_given_the_whole_turn",
    "the_model_is_told_everything_once",
    "timely_answers_are_accepted",
    "tools_start_only_when_allowed",
    "turn_numbers_are_never_reused",
    "usage_is_the_sum_of_committed_calls",
    "user_messages_are_taken_once_in_order",
]
