"""Options that several commands share."""

from __future__ import annotations

from typing import Final

import click

as_json: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
