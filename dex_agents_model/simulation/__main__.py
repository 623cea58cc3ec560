"""``python -m dex_agents_model.simulation``: search every scenario, live random lives, or walk one way again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from .explorer import Exploration, explore, replay
from .faults import Faults
from .lives import simulate
from .report import lines_of, lines_of_life, sums_of
from .scenarios import SCENARIOS


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every promise held and every frontier became empty."""
    parser = argparse.ArgumentParser(prog="python -m dex_agents_model.simulation")
    parser.set_defaults(run=_explore, names=[], faults=1, jobs=1, max_states=None)
    commands = parser.add_subparsers()

    exploring = commands.add_parser("explore", help="search scenarios; all of them without a name")
    exploring.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    exploring.add_argument("--faults", type=int, default=1, help="at most so many in one run")
    exploring.add_argument("--max-states", type=int, help="stop a search behind so many")
    exploring.add_argument("--jobs", type=int, default=1, help="search so many at a time")
    exploring.set_defaults(run=_explore)

    replaying = commands.add_parser("replay", help="walk a way that a search has printed")
    replaying.add_argument("name", choices=SCENARIOS)
    replaying.add_argument("choices", help="such as 0.0.1")
    replaying.add_argument("--faults", type=int, default=1, help="as in the search")
    replaying.set_defaults(run=_replay)

    living = commands.add_parser("live", help="live random lives")
    living.add_argument("seed", type=int)
    living.add_argument("--lives", type=int, default=1, help="so many seeds from SEED on")
    living.add_argument("--actions", type=int, default=1000, help="before peace begins")
    living.set_defaults(run=_live)

    given = parser.parse_args(arguments)
    code: int = given.run(given)
    return code


def _explore(given: argparse.Namespace) -> int:
    seen: list[Exploration] = []
    search = partial(_explored, faults=Faults(given.faults), max_states=given.max_states)
    with ProcessPoolExecutor(given.jobs) as pool:
        for exploration in pool.map(search, given.names or SCENARIOS):
            seen.append(exploration)
            for line in lines_of(exploration):
                print(line, flush=True)
    print(sums_of(seen))
    return 0 if all(each.is_complete and not each.findings for each in seen) else 1


def _explored(name: str, faults: Faults, max_states: int | None) -> Exploration:
    return explore(SCENARIOS[name], faults=faults, max_states=max_states)


def _replay(given: argparse.Namespace) -> int:
    choices = tuple(map(int, given.choices.split(".")))
    lines, world = replay(SCENARIOS[given.name], choices, faults=Faults(given.faults))
    for number, line in enumerate(lines, start=1):
        print(f"{number:4}. {line}")
    for key, text in (*world.records, *world.channels):
        print(f"      {key}: {text}")
    for execution in world.executions:
        print(f"      {execution.name}: {execution.phase}")
    return 0


def _live(given: argparse.Namespace) -> int:
    code = 0
    for seed in range(given.seed, given.seed + given.lives):
        life = simulate(seed, actions=given.actions)
        for line in lines_of_life(life):
            print(line, flush=True)
        code = code or life.broken is not None
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
