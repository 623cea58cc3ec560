"""A short soak; the long one, which also says whether memory stays flat, is `soak` itself."""

import sys
from pathlib import Path

import pytest

from benchmarks.engine_soak import SESSIONS, Soak


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_soak__every_session_ends_right_and_nothing_is_held(tmp_path: Path) -> None:
    """One Worker falls silent, which takes the shortest heartbeat timeout, 10 s. The descriptors
    that were opened are closed again, or the soak does not end."""
    report = await Soak(tmp_path, seconds=2).run()
    assert report.faults() == []
    assert report.silences == 1
    assert report.sessions >= SESSIONS
    assert report.polls_left > 0
