"""What a session is asked about its storage, entry by entry, and how its answer travels."""

from __future__ import annotations

import json
from typing import cast

import dex
from attrs import frozen


@frozen
class ReadEntries:
    """Read these entries of one map. Whoever asks has Dex load exactly them for it."""

    map_name: str
    keys: tuple[str, ...]


@frozen
class ReadWaiting:
    """Read what waits in a Channel behind its first ``after`` messages, 2 MiB of it; or ``forget`` it all."""

    after: int = 0
    forget: bool = False


@frozen
class ForgetEntries:
    """Forget these entries of one map, and let no Step go on."""

    map_name: str
    keys: tuple[str, ...]


@frozen
class StoredTexts:
    """What was asked for as texts, in that order; None for an entry that is not stored."""

    texts: tuple[str | None, ...]


@frozen
class StoredTextsCodec:
    """One text: the lengths of all, a line feed, and all of them. JSON would make them longer."""

    type_name: str = "StoredTexts"
    wire_kind: dex.WireKind = dex.WireKind.STRING

    def encode(self, value: StoredTexts) -> dex.Value:
        lengths = [None if text is None else len(text) for text in value.texts]
        joined = "".join(text or "" for text in value.texts)
        return dex.Value(dex.WireKind.STRING, f"{json.dumps(lengths)}\n{joined}")

    def decode(self, value: dex.Value) -> StoredTexts:
        if not isinstance(value.data, str):
            raise TypeError(f"a text was expected, not {value.kind}")
        head, _, joined = value.data.partition("\n")
        texts: list[str | None] = []
        start = 0
        for length in cast("list[int | None]", json.loads(head)):
            texts.append(None if length is None else joined[start : start + length])
            start += length or 0
        return StoredTexts(tuple(texts))
