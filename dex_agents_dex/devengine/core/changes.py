"""Attribute writes, Channel publishes and deletions: the side effects of a result.

Applied to memory and written as one row per key or message; nothing here decides what runs next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core import rows
from dex_agents_dex.devengine.core.errors import Refusal
from dex_agents_dex.devengine.core.indexing import index_attribute
from dex_agents_dex.devengine.core.state import Message, Run
from dex_agents_dex.devengine.core.transaction import Transaction
from dex_agents_dex.devengine.core.values import is_null, take_in


def write_attributes(tx: Transaction, run: Run, writes: Iterable[pb.AttributeWrite]) -> None:
    """Store each value; a null deletes the key."""
    for write in writes:
        if is_null(write.value):
            if run.attributes.drop(write.key):
                tx.write(rows.DropAttribute(run.key, write.key))
        else:
            value = take_in(tx, run, write.value)
            run.attributes.put(write.key, value)
            tx.write(rows.PutAttribute(run.key, write.key, value.SerializeToString()))
        index_attribute(tx, run, write)
        tx.changed[run.key] = run


def publish(tx: Transaction, run: Run, messages: Iterable[pb.ChannelMessage]) -> None:
    for published in messages:
        name = published.channel_name
        value = take_in(tx, run, published.value)
        message = Message(run.next_message, tx.new_id(), value)
        run.next_message += 1
        run.channels.setdefault(name, deque()).append(message)
        tx.write(
            rows.PutMessage(
                run.key, message.sequence, name, message.message_id, value.SerializeToString()
            )
        )


def take_messages(tx: Transaction, run: Run, name: str, count: int) -> list[pb.Value]:
    """Consume the oldest `count` messages of a Channel, which holds that many."""
    if count == 0:
        return []
    queue = run.channels[name]
    taken = [queue.popleft() for _ in range(count)]
    if not queue:
        del run.channels[name]
    for message in taken:
        tx.write(rows.DropMessage(run.key, message.sequence))
    return [message.value for message in taken]


def delete_messages(
    tx: Transaction, run: Run, deletions: Iterable[pb.ChannelMessageDeletion]
) -> None:
    """Delete messages by id; one that is gone already is no error."""
    for deletion in deletions:
        message = _find_message(run, deletion)
        if message is None:
            continue
        queue = run.channels[deletion.channel_name]
        queue.remove(message)
        if not queue:
            del run.channels[deletion.channel_name]
        tx.write(rows.DropMessage(run.key, message.sequence))


def require_messages(run: Run, deletions: Iterable[pb.ChannelMessageDeletion]) -> None:
    """Raise `Refusal` unless every message to be deleted is still there."""
    for deletion in deletions:
        if _find_message(run, deletion) is None:
            raise Refusal(
                "FAILED_PRECONDITION",
                f"Channel {deletion.channel_name!r} holds no message {deletion.message_id!r}",
                pb.ERROR_SUB_STATUS_CHANNEL_MESSAGE_NOT_FOUND,
            )


def _find_message(run: Run, deletion: pb.ChannelMessageDeletion) -> Message | None:
    queue = run.channels.get(deletion.channel_name, ())
    return next((m for m in queue if m.message_id == deletion.message_id), None)
