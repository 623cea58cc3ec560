"""`make flames`: where the processor time of a turn goes, in Worker and engine, early and late in a session.

Samples both processes with py-spy while a session takes turns of workload W. Prints the time by package and
by function, and leaves a flame graph and the folded stacks of each process.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from attrs import Factory, define

from benchmarks.machine import cpu_seconds, settings
from benchmarks.racing import Contender, contender

_SAMPLES_PER_SECOND: Final = 250
_FORMATS: Final = {"raw": "txt", "flamegraph": "svg"}
_SHOWN_PACKAGES: Final = 12
_SHOWN_FUNCTIONS: Final = 15
_FRAME: Final = re.compile(r"(?P<function>.*) \((?P<file>.*?)(:\d+)?\)")
_IDLE: Final = ("EpollSelector.select", "wait")
_PACKAGES: Final = {
    "dex_agents_pydantic_ai/": "adapter",
    "dex_agents_model/": "model",
    "dex_agents_dex/devengine/": "dev engine",
    "dex_agents_dex/": "binding",
    "benchmarks/": "benchmark",
    "pydantic_ai/": "pydantic_ai",
    "pydantic_graph/": "pydantic_ai",
    "dex/": "Dex SDK",
    "grpc/": "grpc",
    "google/": "protobuf",
}
"""By the start of a file's path; of all others, its first folder."""


@define
class Profile:
    """The samples of one process, while its threads had work to do."""

    samples: int = 0
    by_package: Counter[str] = Factory(Counter)
    by_function: Counter[str] = Factory(Counter)
    below_function: Counter[str] = Factory(Counter)
    """With everything that the function calls; functions of the named packages alone."""

    @classmethod
    def of(cls, folded: Iterable[str]) -> Profile:
        """From py-spy's lines: frames from the outermost, then a count."""
        profile = cls()
        for line in folded:
            stack, _, count = line.rpartition(" ")
            frames = [found for each in stack.split(";") if (found := _FRAME.fullmatch(each))]
            if not frames or frames[-1]["function"] in _IDLE:
                continue
            profile.samples += int(count)
            profile.by_package[_package(frames[-1]["file"])] += int(count)
            profile.by_function[_name(frames[-1])] += int(count)
            ours = (frame for frame in frames if _package(frame["file"]) in _PACKAGES.values())
            for name in set(map(_name, ours)):
                profile.below_function[name] += int(count)
        return profile

    def print_shares(self, ms: float) -> None:
        """Of a turn's time in this process."""
        for title, counted, shown in (
            ("by package", self.by_package, _SHOWN_PACKAGES),
            ("by function", self.by_function, _SHOWN_FUNCTIONS),
            ("with callees", self.below_function, 2 * _SHOWN_FUNCTIONS),
        ):
            print(f"  {title}")
            for name, count in counted.most_common(shown):
                print(f"    {ms * count / self.samples:7.2f} ms  {name}")


def _package(file: str) -> str:
    for start, package in _PACKAGES.items():
        if file.startswith(start):
            return package
    return file.partition("/")[0]


def _name(frame: re.Match[str]) -> str:
    return f"{frame['function']} ({frame['file']})"


async def sample(at_turn: int, turns: int, directory: Path) -> None:
    """Print and keep what ``turns`` turns around ``at_turn`` were spent on."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        async with contender("session", Path(scratch)) as on:
            for _ in range(at_turn - turns // 2):
                await on.turn()
            samplers = [
                await _sampler(pid, directory / f"turn-{at_turn}-{role}.{ending}", form)
                for role, pid in on.processes.items()
                for form, ending in _FORMATS.items()
            ]
            spent = await _take_turns(on, turns)
            for sampler in samplers:
                sampler.send_signal(signal.SIGINT)
                await sampler.wait()
    for role, ms in spent.items():
        print(f"\nturn {at_turn}, {role}: {ms:.1f} ms of processor time a turn")
        with (directory / f"turn-{at_turn}-{role}.txt").open() as folded:
            Profile.of(folded).print_shares(ms)


async def _take_turns(on: Contender, turns: int) -> dict[str, float]:
    """Milliseconds of processor time a turn, by role."""
    before = {role: cpu_seconds([pid]) for role, pid in on.processes.items()}
    for _ in range(turns):
        await on.turn()
    return {
        role: 1000 * (cpu_seconds([pid]) - before[role]) / turns
        for role, pid in on.processes.items()
    }


async def _sampler(pid: int, output: Path, form: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("py-spy")), "record", "--nonblocking"),
        *("--pid", str(pid), "--rate", str(_SAMPLES_PER_SECOND), "--duration", "3600"),
        *("--format", form, "--output", str(output)),
        stdout=DEVNULL,
        stderr=DEVNULL,
    )


@click.command(help=__doc__)
@click.option("--at", "at_turns", multiple=True, default=(10, 200), show_default=True)
@click.option("--turns", default=20, show_default=True, help="Sampled around each of them.")
@click.option(
    "--directory",
    default=Path("build/flames"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
)
def main(at_turns: tuple[int, ...], turns: int, directory: Path) -> None:
    print(*settings(), sep="\n")
    directory.mkdir(parents=True, exist_ok=True)
    for at_turn in at_turns:
        asyncio.run(sample(at_turn, turns, directory))
    print(f"\nflame graphs and folded stacks: {directory}")


if __name__ == "__main__":
    main()
