"""What a person may choose about a dev engine."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from attrs import frozen

from dex_agents_dex.devengine.core.transaction import Settings

NoWorker = Literal["pending", "spend"]
Redelivery = Literal["spend", "same-attempt"]
Durability = Literal["strict", "process-crash-safe"]

_SPEND_AFTER: Final = timedelta(seconds=10)


@frozen(kw_only=True)
class EngineOptions:
    """Behaviour of one engine; the defaults are those of the command line.

    `no_worker`: a task that no Worker takes waits for ever, or costs an attempt after 10 s.
    `redelivery`: a task whose Worker vanished before any frame costs an attempt, or is handed out
    again as the same one.
    `durability`: whether an acknowledged write was fsynced, or survives the engine's process only.
    `retention`: how long a closed Flow can be read; None keeps it for ever.
    `auth_token_file`: bearer tokens, one a line; None lets every local process in.
    `blob_threshold_bytes`: larger values travel as blob ids; 0 makes every string and object one.
    `housekeeping_interval`: how often idle Flows leave memory and old ones the disk.
    """

    no_worker: NoWorker = "pending"
    redelivery: Redelivery = "spend"
    durability: Durability = "strict"
    retention: timedelta | None = timedelta(days=30)
    auth_token_file: Path | None = None
    blob_threshold_bytes: int = 64 * 1024
    housekeeping_interval: timedelta = timedelta(seconds=30)

    def settings(self) -> Settings:
        """What of this concerns the engine's core."""
        return Settings(
            blob_threshold_bytes=self.blob_threshold_bytes,
            spends_lost_attempts=self.redelivery == "spend",
            unclaimed_task_timeout=_SPEND_AFTER if self.no_worker == "spend" else None,
        )
