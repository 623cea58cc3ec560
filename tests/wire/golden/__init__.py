"""The golden files, one folder for each major version, and what adds to the newest of them.

``python -m tests.wire.golden`` writes the file of each sample that has none. It never rewrites
one: a released form is a promise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dex_agents_model.wire import MAJOR_VERSION

FOLDER: Final = Path(__file__).parent / f"v{MAJOR_VERSION}"
