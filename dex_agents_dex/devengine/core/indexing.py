"""Which Attributes a search may name, and what it finds: index rows, kept beside the values.

A write says itself whether it is indexed; those of StartFlow do not, so names that Workers have
declared count too.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import rows
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.core.transaction import Transaction

Scalar: TypeAlias = str | int | float


def index_attribute(tx: Transaction, run: Run, write: pb.AttributeWrite) -> None:
    """Bring the index rows of a written Attribute up to date."""
    is_indexed = write.index_config.enable or write.key in tx.index_names
    if not is_indexed:
        return
    if write.key in run.indexed:
        tx.write(rows.DropIndex(run.key, write.key))
        run.indexed.discard(write.key)
    index_key = write.index_config.index_key or write.key
    for position, value in enumerate(indexed_values(write.value)):
        run.indexed.add(write.key)
        tx.write(rows.PutIndex(run.key, write.key, position, index_key, value))


def indexed_values(value: pb.Value) -> tuple[Scalar, ...]:
    """What an equality may match: one scalar, or each element of an array; nothing for others."""
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return (value.string_value,)
    if kind == "int_value":
        return (value.int_value,)
    if kind == "double_value":
        return (value.double_value,)
    if kind == "bool_value":
        return (int(value.bool_value),)
    if kind == "obj_value" and value.obj_value.encoding == "json":
        return _json_scalars(value.obj_value.payload)
    return ()


def _json_scalars(payload: bytes) -> tuple[Scalar, ...]:
    try:
        decoded: object = json.loads(payload)
    except ValueError:
        return ()
    elements = decoded if isinstance(decoded, list) else [decoded]
    return tuple(
        each for each in elements if isinstance(each, str | int | float) and _is_storable(each)
    )


def _is_storable(value: Scalar) -> bool:
    """JSON knows integers beyond 64 bits and halves of surrogate pairs; a database does not."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) or value.isascii() or _is_text(value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
