"""Values on their way into a run: large ones become blobs, stored once and named by an id.

A blob id is the run's number and a digest of the content, so equal contents of a run share a row.
"""

from __future__ import annotations

import hashlib
from typing import Final, TypeVar

from dex.dexpb import dex_pb2 as pb
from google.protobuf import struct_pb2
from google.protobuf.message import Message

from dex_agents_dex.devengine.core import rows
from dex_agents_dex.devengine.core.state import Run
from dex_agents_dex.devengine.core.transaction import Transaction

Part = TypeVar("Part", bound=Message)

# Workers refuse a Value without content, so one that holds nothing is kept as null.
NULL: Final = pb.Value(null_value=struct_pb2.NullValue.Name(struct_pb2.NULL_VALUE))


def take_in(tx: Transaction, run: Run, value: pb.Value) -> pb.Value:
    """The form of a Value that the run keeps: a copy, or the id of a blob written by `tx`."""
    kind = value.WhichOneof("kind")
    if kind is None:
        return NULL
    if kind not in ("string_value", "obj_value"):
        return own_copy(value)
    size_bytes = value.ByteSize()
    if size_bytes <= tx.settings.blob_threshold_bytes:
        return own_copy(value)
    content = value.SerializeToString(deterministic=True)
    blob_id = f"{run.key}-{hashlib.sha256(content).hexdigest()}"
    if blob_id not in run.blob_sizes:
        run.blob_sizes[blob_id] = size_bytes
        tx.write(rows.PutBlob(run.key, blob_id, run.flow_id, content))
    if kind == "string_value":
        return pb.Value(internal_blob_id_for_string_value=blob_id)
    return pb.Value(internal_blob_id_for_obj_value=blob_id)


def own_copy(part: Part) -> Part:
    """A part of a frame or request to be kept: as it is, it would keep all of that in memory."""
    kept = type(part)()
    kept.CopyFrom(part)
    return kept


def blob_id_of(value: pb.Value) -> str:
    """The id of the blob that a Value stands for; empty for a Value with its content inside."""
    return value.internal_blob_id_for_string_value or value.internal_blob_id_for_obj_value


def is_null(value: pb.Value) -> bool:
    return value.WhichOneof("kind") in (None, "null_value")
