"""The exceptions of the model. A failure in the session's domain is a value, never an exception."""

from __future__ import annotations


class ContractBroken(Exception):
    """A runner or a caller broke its contract. The Step attempt fails and Dex retries it."""


class ClaimRefused(Exception):
    """This delivery of a single-attempt call may not run it. The Step attempt fails; nothing ran."""


class StateCorrupt(Exception):
    """Storage holds, or a rule produced, something that the model cannot mean.

    It is a defect of this library. Nothing here catches it.
    """
