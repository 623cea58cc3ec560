"""SearchFlows: a small query language over the tables.

`FlowType = 'Order' AND ExecutionStatus = 'Running' AND Color = 'red'`: equalities, joined by AND.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Final

from attrs import frozen
from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.errors import invalid

LARGEST_PAGE: Final = 1000
_FRAMING_BYTES: Final = 8  # of an entry in its page
_MOST_CONDITIONS: Final = 100
_CLAUSE: Final = re.compile(
    r"""\s*`?(?P<name>[\w./%-]+?)`?\s*=\s*
    (?:'(?P<single>(?:[^']|'')*)'|"(?P<double>[^"]*)"|(?P<bare>[^\s'"]+))\s*""",
    re.VERBOSE,
)
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_AND: Final = re.compile(r"AND\b", re.IGNORECASE)
_STATUSES: Final = {
    "running": pb.FLOW_STATUS_RUNNING,
    "completed": pb.FLOW_STATUS_COMPLETED,
    "failed": pb.FLOW_STATUS_FAILED,
    "terminated": pb.FLOW_STATUS_TERMINATED,
    "canceled": pb.FLOW_STATUS_CANCELED,
}


@frozen
class Query:
    """Conditions as SQL over `run`, with their parameters."""

    conditions: tuple[str, ...]
    parameters: tuple[str | int | float, ...]


def parse_query(text: str) -> Query:
    """Raise `Refusal` for what is no equality, or not joined by AND."""
    conditions: list[str] = []
    parameters: list[str | int | float] = []
    rest = text.strip()
    while rest:
        clause = _CLAUSE.match(rest)
        if clause is None:
            raise invalid(
                f"cannot read the query at {rest[:40]!r}: only equalities joined by AND are known"
            )
        condition, values = _condition(clause)
        conditions.append(condition)
        parameters += values
        if len(conditions) > _MOST_CONDITIONS:
            raise invalid(f"a query has {_MOST_CONDITIONS} conditions at most")
        rest = rest[clause.end() :]
        if rest:
            joint = _AND.match(rest)
            if joint is None or not rest[joint.end() :].strip():
                raise invalid(f"expected AND and an equality in the query at {rest[:40]!r}")
            rest = rest[joint.end() :].strip()
    return Query(tuple(conditions), tuple(parameters))


def search_runs(
    connection: sqlite3.Connection,
    query: Query,
    page_size: int,
    page_bytes: int,
    before_run_key: int | None,
) -> tuple[list[pb.SearchFlowsResponseEntry], str]:
    """Newest first, with the token of the next page; empty at the end.

    A page ends early, but not before its first entry, where `page_bytes` would be exceeded.
    """
    conditions, parameters = list(query.conditions), list(query.parameters)
    if before_run_key is not None:
        conditions.append("run_key < ?")
        parameters.append(before_run_key)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = connection.execute(
        "SELECT run_key, flow_id, run_id, flow_type, status, started_us, closed_us FROM run "
        f"{where} ORDER BY run_key DESC LIMIT ?",
        (*parameters, page_size + 1),
    ).fetchall()
    entries: list[pb.SearchFlowsResponseEntry] = []
    for row in rows[:page_size]:
        entry = _entry(connection, *row)
        page_bytes -= entry.ByteSize() + _FRAMING_BYTES
        if entries and page_bytes < 0:
            break
        entries.append(entry)
    token = str(rows[len(entries) - 1][0]) if len(rows) > len(entries) else ""
    return entries, token


def _condition(clause: re.Match[str]) -> tuple[str, list[str | int | float]]:
    name, value = clause["name"], _literal(clause)
    if name == "FlowType":
        return "flow_type = ?", [str(value)]
    if name == "ExecutionStatus":
        status = _STATUSES.get(str(value).lower())
        if status is None:
            raise invalid(f"unknown ExecutionStatus {value!r}; known: {', '.join(_STATUSES)}")
        return "status = ?", [int(status)]
    found = "run_key IN (SELECT run_key FROM search WHERE index_key = ? AND value = ?)"
    return found, [name, value]


def _literal(clause: re.Match[str]) -> str | int | float:
    if clause["single"] is not None:
        return clause["single"].replace("''", "'")
    if clause["double"] is not None:
        return clause["double"]
    bare = clause["bare"]
    if bare.lower() in ("true", "false"):
        return int(bare.lower() == "true")
    if _INTEGER.fullmatch(bare) and -(2**63) <= int(bare) < 2**63:
        return int(bare)
    try:
        return float(bare)
    except ValueError:
        raise invalid(f"{bare!r} is no literal; text needs quotes") from None


def _entry(
    connection: sqlite3.Connection,
    run_key: int,
    flow_id: str,
    run_id: str,
    flow_type: str,
    status: int,
    started_us: int,
    closed_us: int | None,
) -> pb.SearchFlowsResponseEntry:
    entry = pb.SearchFlowsResponseEntry(
        flow_id=flow_id, run_id=run_id, flow_type=flow_type, flow_status=pb.FlowStatus.Name(status)
    )
    entry.start_time.FromMicroseconds(started_us)
    if closed_us is not None:
        entry.close_time.FromMicroseconds(closed_us)
    indexed = connection.execute(
        "SELECT DISTINCT search.index_key, attribute.value FROM search JOIN attribute "
        "ON attribute.run_key = search.run_key AND attribute.key = search.attribute_key "
        "WHERE search.run_key = ? ORDER BY search.attribute_key",
        (run_key,),
    )
    for index_key, value in indexed:
        entry.indexed_attributes.add(key=index_key, value=pb.Value.FromString(value))
    return entry
