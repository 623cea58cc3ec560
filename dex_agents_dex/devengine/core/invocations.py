"""The requests that Workers receive: what a method or RPC sees of its run.

A snapshot is built once per method and kept over its retries; each hand-out completes it with the
attempt's own facts. Nothing here changes a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from dex.dexpb import dex_pb2 as pb

from dex_agents_dex.devengine.core.instants import to_seconds
from dex_agents_dex.devengine.core.state import Phase, Run, StepExecution
from dex_agents_dex.devengine.core.values import NULL, blob_id_of, is_null

_Request: TypeAlias = (
    pb.InvokeWaitForMethodRequest | pb.InvokeExecuteMethodRequest | pb.InvokeWorkerRPCRequest
)


def step_snapshot(run: Run, step: StepExecution) -> pb.PollWorkerTask:
    task = pb.PollWorkerTask()
    options = step.options
    if step.phase is Phase.WAIT_FOR:
        _fill_step(task.wait_for, run, step)
        _fill_state(
            task.wait_for,
            run,
            step.attribute_loads,
            options.wait_for_load_channel_names,
            options.wait_for_load_channel_map_instances,
        )
        return task
    _fill_step(task.execute, run, step)
    _fill_state(
        task.execute,
        run,
        step.attribute_loads,
        options.execute_load_channel_names,
        options.execute_load_channel_map_instances,
    )
    for key, value in step.locals.items():
        task.execute.step_exe_locals.add(key=key, value=value)
    if step.conditions is not None:
        task.execute.condition_results.CopyFrom(step.conditions)
    return task


def rpc_snapshot(run: Run, request: pb.InvokeRPCRequest) -> pb.PollWorkerTask:
    task = pb.PollWorkerTask()
    rpc = task.rpc
    rpc.context.flow_id = run.flow_id
    rpc.context.run_id = run.run_id
    rpc.context.flow_started_timestamp = to_seconds(run.started_at)
    rpc.flow_type = run.flow_type
    rpc.rpc_name = request.rpc_name
    rpc.input.CopyFrom(NULL if is_null(request.input) else request.input)
    _fill_state(
        rpc,
        run,
        request.load_attribute_map_instances,
        request.load_channel_names,
        request.load_channel_map_instances,
    )
    return task


def add_attempt(context: pb.Context, step: StepExecution) -> None:
    """Write what differs between two attempts of a method into its snapshot's context."""
    context.attempt = step.attempt
    if step.first_attempt_at is not None:
        context.first_attempt_timestamp = to_seconds(step.first_attempt_at)
    if step.heartbeat is None:
        context.ClearField("last_heartbeat_value")
    else:
        context.last_heartbeat_value.CopyFrom(step.heartbeat)


def step_request(
    task: pb.PollWorkerTask,
) -> pb.InvokeWaitForMethodRequest | pb.InvokeExecuteMethodRequest:
    return task.wait_for if task.WhichOneof("request") == "wait_for" else task.execute


def oversize(run: Run, task: pb.PollWorkerTask, subject: str, limit_bytes: int) -> str | None:
    """What to tell about a task that no Worker could receive; None when it fits.

    Blobs that the Worker does not have yet come in one answer, so they count together.
    """
    inline_bytes = task.ByteSize()
    if inline_bytes > limit_bytes:
        return _too_large(run, subject, "its request", inline_bytes, limit_bytes)
    if run.blob_sizes:
        blobs_bytes = sum(run.blob_sizes.get(blob_id, 0) for blob_id in _blob_ids(task))
        if blobs_bytes > limit_bytes:
            return _too_large(run, subject, "the values it loads", blobs_bytes, limit_bytes)
    return None


def _too_large(run: Run, subject: str, what: str, size_bytes: int, limit_bytes: int) -> str:
    return (
        f"{subject} of Flow {run.flow_id!r} ({run.flow_type}) cannot be handed to a Worker: "
        f"{what} would take {size_bytes} bytes, and the limit is {limit_bytes}"
    )


def _blob_ids(task: pb.PollWorkerTask) -> set[str]:
    kind = task.WhichOneof("request")
    request: _Request = task.rpc if kind == "rpc" else step_request(task)
    ids = {blob_id_of(entry.value) for entry in request.attributes}
    for messages in request.loaded_channel_messages.values():
        ids |= {blob_id_of(message.value) for message in messages.messages}
    if isinstance(request, pb.InvokeWorkerRPCRequest):
        ids.add(blob_id_of(request.input))
        return ids
    ids |= {blob_id_of(request.step_input), blob_id_of(request.context.last_heartbeat_value)}
    if isinstance(request, pb.InvokeExecuteMethodRequest):
        ids |= {blob_id_of(entry.value) for entry in request.step_exe_locals}
        for result in request.condition_results.channel_results:
            ids |= {blob_id_of(value) for value in result.values}
    return ids


def _fill_step(
    request: pb.InvokeWaitForMethodRequest | pb.InvokeExecuteMethodRequest,
    run: Run,
    step: StepExecution,
) -> None:
    context = request.context
    context.flow_id = run.flow_id
    context.run_id = run.run_id
    context.flow_started_timestamp = to_seconds(run.started_at)
    context.step_execution_id = step.id
    context.from_step_execution_id = step.source
    context.run_attempt = 1
    if step.recovery is not None:
        context.recovery_error.CopyFrom(step.recovery)
    request.flow_type = run.flow_type
    request.step_type = step.step_type
    if step.input is not None:
        request.step_input.CopyFrom(step.input)


def _fill_state(
    request: _Request,
    run: Run,
    attribute_loads: Sequence[str],
    channel_names: Sequence[str],
    channel_map_loads: Sequence[str],
) -> None:
    attributes = request.attributes
    for key, value in run.attributes.singletons.items():
        attributes.add(key=key, value=value)
    if attribute_loads:
        for key, value in _selected(run, attribute_loads):
            attributes.add(key=key, value=value)
    if run.channels:
        _fill_channels(request, run, channel_names, channel_map_loads)
    # The SDK refuses to read an entry whose selection is not echoed.
    request.loaded_attribute_map_instances.extend(attribute_loads)
    request.loaded_channel_names.extend(channel_names)
    request.loaded_channel_map_instances.extend(channel_map_loads)


def _fill_channels(
    request: _Request, run: Run, names: Sequence[str], map_loads: Sequence[str]
) -> None:
    for name, messages in run.channels.items():
        request.channel_infos[name].size = len(messages)
    for name in _loaded_channels(run, names, map_loads):
        loaded = request.loaded_channel_messages[name].messages
        for message in run.channels[name]:
            loaded.add(channel_name=name, value=message.value, message_id=message.message_id)


def _selected(run: Run, loads: Sequence[str]) -> Iterable[tuple[str, pb.Value]]:
    """Entries of `Map/` (all of the map) and `Map/key` selections, each once."""
    whole_maps = {load[:-1] for load in loads if load.endswith("/")}
    for name in sorted(whole_maps):
        yield from run.attributes.map_entries(name)
    for key in dict.fromkeys(loads):
        if key.endswith("/") or key.partition("/")[0] in whole_maps:
            continue
        value = run.attributes.get(key)
        if value is not None and "/" in key:
            yield key, value


def _loaded_channels(
    run: Run, channel_names: Sequence[str], map_loads: Sequence[str]
) -> Iterable[str]:
    wanted = {*channel_names, *map_loads}
    prefixes = tuple(load for load in map_loads if load.endswith("/"))
    return [
        name for name in run.channels if name in wanted or (prefixes and name.startswith(prefixes))
    ]
