"""`python -m dex_agents_dex.cli` is `dex-agents`."""

from .root import main

main(prog_name="dex-agents")
