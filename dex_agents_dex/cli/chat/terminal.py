"""The conversation's place on a terminal: what is said scrolls above, the line that is typed stays at the bottom."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style
from rich.console import Console, RenderableType

from .rows import Rows
from .screen import Typed

_FLUSH_EVERY_SECONDS: Final = 0.02
_MARGIN_CELLS: Final = 2
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse ansibrightblack"})


class Terminal:
    """A Screen for a person. Whatever else the program prints scrolls by as well."""

    is_terminal = True

    def __init__(self, output: StdoutProxy, commands: Sequence[str]) -> None:
        self.on_interrupt: Callable[[], None] = lambda: None
        self._console = Console(file=cast("Any", output), force_terminal=True, highlight=False)
        self._rows = Rows()
        self._is_flowing = False
        self._is_first_row = True
        self._status = ""
        self._prompt = "> "
        self._about: str | None = None
        self._typed_about: str | None = None
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

    def line(self, text: RenderableType = "") -> None:
        self.end_flow()
        self._console.print(text, markup=False)

    def flow(self, text: str) -> None:
        if not self._is_flowing:
            self._is_flowing = self._is_first_row = True
        width = max(shutil.get_terminal_size().columns - 2 * _MARGIN_CELLS, 20)
        for row in self._rows.take(text, width):
            self._print_row(row)
        self._redraw()

    def end_flow(self) -> None:
        if self._is_flowing:
            row = self._rows.end()
            if row.strip():
                self._print_row(row)
            self._is_flowing = False

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
        self._typed_about = self._about
        try:
            text = await self._session.prompt_async(pre_run=self._fill_in, handle_sigint=False)
        except EOFError:
            return None
        return Typed(text, self._typed_about)

    def _fill_in(self) -> None:
        if self._prefill:
            buffer = self._session.default_buffer
            buffer.text, self._prefill = self._prefill, ""
            buffer.cursor_position = len(buffer.text)

    def _note_subject(self, _: object) -> None:
        """A line answers what the prompt asked when its first character was typed."""
        if len(self._session.default_buffer.text) <= 1:
            self._typed_about = self._about

    def _message(self) -> StyleAndTextTuples:
        parts: StyleAndTextTuples = []
        if self._is_flowing and self._rows.open_row:
            parts += [("", f"{self._gutter()}{self._rows.open_row}\n")]
        return [*parts, ("bold", self._prompt)]

    def _toolbar(self) -> StyleAndTextTuples:
        return [("", f"  {self._status}")]

    def _print_row(self, row: str) -> None:
        self._console.print(f"{self._gutter()}{row}".rstrip(), markup=False)
        self._is_first_row = False

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
def scrolling_output() -> Iterator[StdoutProxy]:
    """While this lasts, all that is printed goes above the line that is typed."""
    with _Output(sleep_between_writes=_FLUSH_EVERY_SECONDS, raw=True) as output:
        text_output = cast("Any", output)
        with redirect_stdout(text_output), redirect_stderr(text_output):
            yield output
