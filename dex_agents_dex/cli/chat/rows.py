"""Text that arrives in pieces, cut into rows of a terminal: a full row never changes any more."""

from __future__ import annotations

from rich.cells import cell_len


class Rows:
    """``take`` gives the rows that are full; ``open_row`` is the one that still grows."""

    def __init__(self) -> None:
        self.open_row = ""

    def take(self, text: str, width: int) -> list[str]:
        """The rows that ``text`` completes, each at most ``width`` cells wide where words allow."""
        *ended, self.open_row = (self.open_row + text).split("\n")
        full: list[str] = []
        for paragraph in ended:
            rows, rest = _fold(paragraph, width)
            full += [*rows, rest]
        rows, self.open_row = _fold(self.open_row, width)
        return full + rows

    def end(self) -> str:
        """The row that was open; nothing is, then."""
        row, self.open_row = self.open_row, ""
        return row


def _fold(text: str, width: int) -> tuple[list[str], str]:
    rows: list[str] = []
    while cell_len(text) > width:
        end = _characters_within(text, width)
        space = text.rfind(" ", 0, end + 1)
        if space > 0:
            rows.append(text[:space].rstrip())
            text = text[space + 1 :]
        else:
            rows.append(text[:end])
            text = text[end:]
    return rows, text


def _characters_within(text: str, width: int) -> int:
    """How many characters of ``text`` fit, at least one."""
    cells = 0
    for count, character in enumerate(text):
        cells += cell_len(character)
        if cells > width:
            return max(count, 1)
    return len(text)
