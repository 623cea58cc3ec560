"""A record that is changed in place."""

from dex_agents_model.records import WaitingForUserMessage


def forget(state: WaitingForUserMessage) -> None:
    state.last_turn = None  # refused: misc
