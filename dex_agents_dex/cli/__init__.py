"""The command line `dex-agents`: sessions for a person at a terminal, and for scripts.

It stands on the client and the runtime like any other program. Nothing that a program may need lives here.
"""

from .root import main

__all__ = ["main"]
