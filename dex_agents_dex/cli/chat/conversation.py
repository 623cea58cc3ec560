"""From what a person types to what is asked of the session. What the session tells is shown by `watching`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import dex
from rich.text import Text

from dex_agents_model.ids import InterruptId
from dex_agents_model.records import AgentInterrupt, MessageRole
from dex_agents_model.text import digest

from ...client import AgentSessionClient
from ...errors import AgentSessionError, MessageRefused
from ..names import json_object
from ..words import BAD, MESSAGE_REFUSED, QUIET, in_one_line, told_queued, told_words
from .board import Board
from .screen import Screen, Typed
from .watching import Watcher

COMMANDS: Final = ("/steer", "/cancel", "/queue", "/help", "/quit")
_HELP: Final = """\
  /steer TEXT   speak to the running turn; questions that wait are answered with no
  /cancel       stop the running turn
  /queue        the messages that wait for their turn
  /help         this
  /quit         leave; the session lives on
  Anything else is a message: it begins a turn, or waits for the running one to end."""


class Conversation:
    """One person and one session."""

    def __init__(
        self, sessions: AgentSessionClient, board: Board, screen: Screen, *, person: str
    ) -> None:
        self._sessions = sessions
        self._board = board
        self._screen = screen
        self._person = person
        self._watcher = Watcher(sessions, board, screen)
        self._editing: AgentInterrupt | None = None
        self._is_interrupted = False
        self._left = asyncio.Event()
        self._calls = set[asyncio.Task[None]]()
        acts = (self._steer, self._cancel, self._show_queue, self._help, self._quit)
        self._acts = dict(zip(COMMANDS, acts, strict=True))

    async def run(self) -> None:
        """Until the person leaves.

        Raises:
            AgentSessionError: the session cannot be read, or was closed.
        """
        token = await self._watcher.begin()
        tasks = {
            asyncio.create_task(self._watcher.follow(token)),
            asyncio.create_task(self._watcher.keep_looking()),
            asyncio.create_task(self._listen()),
            asyncio.create_task(self._left.wait()),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks | self._calls:
                task.cancel()
            await asyncio.gather(*tasks, *self._calls, return_exceptions=True)

    def interrupt(self) -> None:
        """Ctrl-C: the first cancels the turn that runs, the second leaves."""
        if self._is_interrupted:
            self._left.set()
            return
        self._is_interrupted = True
        if self._board.running is None:
            self._quietly("  Ctrl-C again leaves; the session lives on")
            return
        self._quietly("  Ctrl-C again leaves; the turn is being cancelled")
        call = asyncio.create_task(self._do(self._cancel, ""))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    def leave(self) -> None:
        """End the conversation."""
        self._left.set()

    async def _listen(self) -> None:
        while (typed := await self._screen.read()) is not None:
            self._is_interrupted = False
            if not self._screen.is_terminal and not typed.text.startswith("/"):
                await self._board.wait_until_ready()
            await self._do(self._take, typed)
            self._watcher.show_status()
            if self._left.is_set():
                return
        if not self._screen.is_terminal:
            await self._board.wait_until_ready()

    async def _do(self, act: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """What the session refuses is told; the conversation goes on."""
        try:
            await act(*arguments)
        except (AgentSessionError, dex.DexServiceError) as error:
            self._screen.line(Text(f"  {in_one_line(str(error), 500)}", BAD))

    async def _take(self, typed: Typed) -> None:
        text = typed.text.strip()
        command, _, rest = text.partition(" ")
        if self._editing is not None:
            await self._take_edit(self._editing, text)
        elif command in self._acts:
            await self._acts[command](rest.strip())
        elif command.startswith("/"):
            self._quietly(f"  there is no {in_one_line(command)}; /help lists what there is")
        elif self._board.questions and text:
            await self._answer(typed, text)
        elif text:
            await self._send(text)

    # --- messages ------------------------------------------------------------------------------

    async def _send(self, text: str) -> None:
        message_id = uuid4().hex
        self._board.sent.add(message_id)
        waits = self._board.running is not None
        self._say(text, " (queued)" if waits else "")
        self._board.awaited.add(message_id)
        if not await self._sessions.send_user_message(
            self._board.session_id, text, message_id=message_id
        ):
            self._board.awaited.discard(message_id)
            self._screen.line(Text(f"  {MESSAGE_REFUSED}", BAD))

    async def _steer(self, text: str) -> None:
        if not text:
            self._quietly("  /steer TEXT")
            return
        message_id = uuid4().hex
        self._board.sent.add(message_id)
        self._say(text, " (to the running turn)" if self._board.running is not None else "")
        with self._answering(*(asked.interrupt_id for asked in self._board.questions)):
            accepted = await self._sessions.steer_user_message(
                self._board.session_id, text, message_id=message_id
            )
            if not accepted:
                raise MessageRefused(MESSAGE_REFUSED)

    async def _cancel(self, _: str) -> None:
        self._board.doing = "cancelling"
        self._watcher.show_status()
        if not await self._sessions.cancel_turn(self._board.session_id):
            self._quietly("  no turn runs")

    async def _show_queue(self, _: str) -> None:
        page = await self._sessions.list_queued_messages(self._board.session_id)
        for message in page.messages:
            self._quietly(f"  {told_queued(message)}")
        if not page.messages:
            self._quietly("  nothing is queued")

    # --- questions -----------------------------------------------------------------------------

    async def _answer(self, typed: Typed, text: str) -> None:
        asked = self._board.questions[0]
        if self._screen.is_terminal and typed.about != asked.interrupt_id:
            self._quietly("  not taken: the question is another one now")
            self._watcher.ask_again()
            return
        word, _, rest = text.partition(" ")
        match word.lower():
            case "y" | "yes":
                await self._resolve(asked, approved=True)
            case "n" | "no":
                await self._resolve(asked, approved=False, why=rest.strip() or None)
            case "e" | "edit":
                self._begin_edit(asked)
                if rest.strip():
                    await self._take_edit(asked, rest.strip())
            case _:
                self._quietly("  y, n or e; `/steer TEXT` speaks to the agent instead")

    def _begin_edit(self, asked: AgentInterrupt) -> None:
        if digest(asked.arguments) != asked.arguments_digest:
            self._quietly(
                "  these arguments are too long to be edited here: see `dex-agents approve --edit`"
            )
            return
        self._editing = asked
        self._screen.ask("arguments > ", about=asked.interrupt_id, prefill=asked.arguments)

    async def _take_edit(self, asked: AgentInterrupt, text: str) -> None:
        if not text or text in COMMANDS:
            self._editing = None
            self._watcher.ask_again()
            return
        try:
            json_object(text)
        except ValueError as error:
            self._quietly(f"  {error}; an empty line gives the edit up")
            self._screen.ask("arguments > ", about=asked.interrupt_id, prefill=text)
            return
        self._editing = None
        await self._resolve(asked, approved=True, edited=text)

    async def _resolve(
        self,
        asked: AgentInterrupt,
        *,
        approved: bool,
        edited: str | None = None,
        why: str | None = None,
    ) -> None:
        with self._answering(asked.interrupt_id):
            accepted = await self._sessions.resolve_interrupt(
                self._board.session_id,
                asked.interrupt_id,
                approved=approved,
                rejection_message=why,
                arguments_digest=asked.arguments_digest,
                edited_arguments=edited,
                resolved_by=self._person,
            )
        if not accepted:
            self._quietly("  too late: it does not wait any more")
        elif edited is not None and edited != asked.arguments:
            self._quietly(f"  approved with {in_one_line(edited)}")
        else:
            self._quietly("  approved" if approved else "  not approved")
        self._board.drop(asked.interrupt_id)
        self._watcher.show_question()

    @contextmanager
    def _answering(self, *questions: InterruptId) -> Iterator[None]:
        """An answer of this conversation's own is told by no event; one that fails leaves its question open."""
        self._board.answered.update(questions)
        try:
            yield
        except (AgentSessionError, dex.DexServiceError):
            self._board.answered.difference_update(questions)
            self._watcher.ask_again()
            raise

    # --- the rest ------------------------------------------------------------------------------

    async def _help(self, _: str) -> None:
        self._quietly(_HELP)

    async def _quit(self, _: str) -> None:
        self._left.set()

    def _say(self, text: str, note: str) -> None:
        self._screen.line(told_words(MessageRole.USER, text, note))

    def _quietly(self, text: str) -> None:
        self._screen.line(Text(text, QUIET))
