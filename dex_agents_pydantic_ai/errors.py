"""Why an attempt of a Step failed. A failure that the model should see is a ToolExecutionError of the model package.

Their messages say all that a person or a model is to read of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dex_agents_model import ModelCallFailed, RunnerFailed


class ModelStepFailed(ModelCallFailed):
    """The model call of this attempt cannot be used; nothing of it is stored."""


class ToolStepFailed(RunnerFailed):
    """The tool was cut off or broke; its work may have happened."""


@contextmanager
def ending_the_step_alone(failed: type[ModelStepFailed | ToolStepFailed]) -> Iterator[None]:
    """Make ``failed`` of what code of the agent raises to end the program, or an iteration outside of it.

    Pydantic AI runs such code in tasks of its own. From there asyncio ends the Worker for SystemExit
    and KeyboardInterrupt, and a StopAsyncIteration leaves the run waiting for ever.
    """
    try:
        yield
    except (SystemExit, KeyboardInterrupt, StopAsyncIteration) as error:
        raise failed(f"code of the agent raised {describe(error)}") from error


def describe(error: BaseException) -> str:
    """``<type>: <message>``, or the type alone when there is no message; of a group, of each in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(each) for each in error.exceptions)
    name = type(error).__name__
    return f"{name}: {text}" if (text := str(error)) else name
