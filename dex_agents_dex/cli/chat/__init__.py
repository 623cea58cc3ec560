"""`dex-agents chat`: a conversation in a terminal. It asks a session only through its client, as any program does."""

from .command import chat

__all__ = ["chat"]
