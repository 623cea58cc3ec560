"""An OpenAI-compatible provider on loopback, in a thread of its own: it answers by what the user said. No rule here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal
from attrs import define, field

from tests.adapter.sse_server import Json, Reply, SseServer, refused, serving


@define
class Provider(SseServer):
    """Many sessions talk with it at once, so each text of a user has a script of its own."""

    replies: list[Reply] = field(factory=list)
    _scripts: dict[str, list[Reply]] = field(factory=dict, init=False)

    def script(self, text: str, *replies: Reply) -> None:
        """Answer one request after the other with ``replies`` while ``text`` is the newest script that a user names."""
        self._scripts[text] = list(replies)

    def asked(self, text: str) -> list[Json]:
        """The requests that the script of ``text`` has answered, in order."""
        return [request for request in self.requests if self._named_in(request) == text]

    def reply_to(self, request: Json) -> Reply:
        script = self._scripts.get(self._named_in(request) or "", [])
        return script.pop(0) if script else refused(400)

    def _named_in(self, request: Json) -> str | None:
        said = (m["content"] for m in reversed(request["messages"]) if m["role"] == "user")
        return next((text for text in said if text in self._scripts), None)


@contextmanager
def provider_in_a_thread() -> Iterator[Provider]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(Provider())) as provider,
    ):
        yield provider
