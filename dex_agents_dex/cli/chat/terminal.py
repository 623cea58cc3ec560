"""The conversation's place on a terminal: what is said scrolls above, the line that is typed stays at the bottom."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from rich.console import RenderableType
from rich.text import Text

from ..words import SafeConsole
from .rows import Rows
from .screen import Typed

_FLUSH_EVERY_SECONDS: Final = 0.02
_MARGIN_CELLS: Final = 2
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse ansibrightblack"})


class Terminal:
    """A Screen for a person. It is written to in the event loop alone."""

    is_terminal = True

    def __init__(self, commands: Sequence[str]) -> None:
        self.on_interrupt: Callable[[], None] = lambda: None
        self._console = SafeConsole(force_terminal=True)
        self._unwritten: list[str] = []
        self._writing: asyncio.Task[None] | None = None
        self._rows = Rows()
        self._is_first_row = True
        self._status = ""
        self._prompt = "> "
        self._about: str | None = None
        self._typed_about: str | None = None
        self._was_empty = True
        self._prefill = ""
        self._session = PromptSession[str](
            message=self._message,
            bottom_toolbar=self._toolbar,
            erase_when_done=True,
            key_bindings=self._keys(),
            completer=WordCompleter(list(commands), sentence=True),
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            style=_STYLE,
        )
        self._session.default_buffer.on_text_changed += self._note_subject
        self._session.output.erase_down()  # what a program that was killed has left there
        self._session.output.flush()

    def line(self, text: RenderableType = "") -> None:
        self._end_row()
        self._print(text)

    def flow(self, text: str) -> None:
        width = max(shutil.get_terminal_size().columns - 2 * _MARGIN_CELLS, 20)
        for row in self._rows.take(text, width):
            self._print_row(row)
        self._redraw()

    def end_flow(self) -> None:
        self._end_row()
        self._is_first_row = True

    def status(self, text: str) -> None:
        self._status = text
        self._redraw()

    def ask(self, prompt: str, *, about: str | None = None, prefill: str = "") -> None:
        self._prompt = prompt
        self._about = about
        self._prefill = prefill
        if prefill and self._session.app.is_running:
            self._fill_in()
        self._redraw()

    async def read(self) -> Typed | None:
        self._typed_about, self._was_empty = self._about, True
        await self.written()
        try:
            text = await self._session.prompt_async(pre_run=self._fill_in, handle_sigint=False)
        except EOFError:
            return None
        return Typed(text, self._typed_about)

    async def written(self) -> None:
        """Wait until all lines are on the terminal."""
        while self._writing is not None:
            await self._writing

    def _fill_in(self) -> None:
        if self._prefill:
            buffer = self._session.default_buffer
            buffer.text, self._prefill = self._prefill, ""
            buffer.cursor_position = len(buffer.text)

    def _note_subject(self, _: object) -> None:
        """A line answers what the prompt asked when its first character was typed."""
        if self._was_empty:
            self._typed_about = self._about
        self._was_empty = not self._session.default_buffer.text

    def _message(self) -> StyleAndTextTuples:
        parts: StyleAndTextTuples = []
        if self._rows.open_row:
            parts += [("", f"{self._gutter()}{self._rows.open_row}\n")]
        return [*parts, ("bold", self._prompt)]

    def _toolbar(self) -> StyleAndTextTuples:
        return [("", f"  {self._status}")]

    def _end_row(self) -> None:
        row = self._rows.end()
        if row.strip():
            self._print_row(row)

    def _print_row(self, row: str) -> None:
        self._print(Text(f"{self._gutter()}{row}".rstrip()))
        self._is_first_row = False

    def _print(self, text: RenderableType) -> None:
        with self._console.capture() as captured:
            self._console.print(text)
        self._unwritten.append(captured.get())
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """Above the line that is typed, if one is."""
        while self._unwritten:
            async with in_terminal():
                lines, self._unwritten = self._unwritten, []
                self._session.output.write_raw("".join(lines))
                self._session.output.flush()
        self._writing = None

    def _gutter(self) -> str:
        return "● " if self._is_first_row else "  "

    def _redraw(self) -> None:
        if self._session.app.is_running:
            self._session.app.invalidate()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.reset()
            self.on_interrupt()

        return keys


class _Output(StdoutProxy):
    def isatty(self) -> bool:
        """Not for those who print beside the conversation: no banner, no progress bar."""
        return False


@contextmanager
def others_scroll_by() -> Iterator[None]:
    """While this lasts, whatever else the program prints goes above the line that is typed."""
    with _Output(sleep_between_writes=_FLUSH_EVERY_SECONDS, raw=True) as output:
        text_output = cast("Any", output)
        with redirect_stdout(text_output), redirect_stderr(text_output):
            yield
