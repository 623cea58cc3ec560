"""The stories. Each is a session that a user could have, and goes alike on every engine."""

from __future__ import annotations

from typing import Final

from .people import APPROVALS, CANCELLING, STEERING
from .troubles import DEATHS, FAILURES
from .turns import QUEUE, TURNS

STORIES: Final = (*TURNS, *QUEUE, *APPROVALS, *STEERING, *CANCELLING, *FAILURES, *DEATHS)
