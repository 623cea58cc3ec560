"""Why an attempt of a Step failed. A failure that the model should see is a ToolExecutionError of the model package.

Their messages say all that a person or a model is to read of them.
"""

from __future__ import annotations

from dex_agents_model import ModelCallFailed, RunnerFailed


class ModelStepFailed(ModelCallFailed):
    """The model call of this attempt cannot be used; nothing of it is stored."""


class ToolStepFailed(RunnerFailed):
    """The tool was cut off or broke; its work may have happened."""


def describe(error: BaseException) -> str:
    """``<type>: <message>``, or the type alone when there is no message; of a group, of each in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(each) for each in error.exceptions)
    name = type(error).__name__
    return f"{name}: {text}" if (text := str(error)) else name
