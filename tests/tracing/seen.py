"""Spans as a test compares them: by name, parent, status and attributes, without the IDs that change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from dex_agents_model import AgentUsage


@frozen
class Seen:
    """A span that ended. ``parent`` is the name of its parent, ``status`` the code and, if any, the text."""

    name: str
    parent: str | None
    kind: str
    status: tuple[str, ...]
    attributes: Mapping[str, Any]


class SpanFile(SpanExporter):
    """Appends each span to a file, as one line of JSON, before the export returns."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._path.open("a") as lines:
            lines.writelines(f"{span.to_json(indent=None)}\n" for span in spans)
        return SpanExportResult.SUCCESS


def new_provider(processor: SpanProcessor, **arguments: Any) -> TracerProvider:
    """A provider of a test's own, with nothing from the environment; ``arguments`` are those of the SDK's."""
    provider = TracerProvider(resource=Resource({}), shutdown_on_exit=False, **arguments)
    provider.add_span_processor(processor)
    return provider


def as_data(spans: Iterable[ReadableSpan]) -> list[dict[str, Any]]:
    """What `SpanFile` writes of ``spans``."""
    return [json.loads(span.to_json()) for span in spans]


def in_file(path: Path) -> list[dict[str, Any]]:
    """What a `SpanFile` has written."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def seen_in(
    spans: Sequence[Mapping[str, Any]], *, of: Sequence[Mapping[str, Any]] = ()
) -> list[Seen]:
    """``spans`` of one trace in the order of their ends; their parents are among them, or among ``of``."""
    assert len({span["context"]["trace_id"] for span in (*spans, *of)}) <= 1
    names = {span["context"]["span_id"]: span["name"] for span in (*spans, *of)}
    return [
        Seen(
            span["name"],
            None if span["parent_id"] is None else names[span["parent_id"]],
            span["kind"].removeprefix("SpanKind."),
            tuple(span["status"].values()),
            span["attributes"],
        )
        for span in spans
    ]


def committed_usage(spans: Iterable[Mapping[str, Any]]) -> AgentUsage:
    """What a reader of traces finds that a session has used, by the rule in docs/tracing.md."""
    chats = [s for s in spans if s["attributes"].get("gen_ai.operation.name") == "chat"]
    chats.sort(key=lambda span: (span["attributes"]["dex.step.attempt"], span["end_time"]))
    last = {span["attributes"]["dex.step.execution_id"]: span["attributes"] for span in chats}
    total = AgentUsage()
    for told in last.values():
        if "error.type" not in told:
            total += usage_in(told)
    return total


def usage_in(attributes: Mapping[str, Any]) -> AgentUsage:
    """What the span of one model call says that it used."""
    return AgentUsage(
        requests=attributes["dex.usage.requests"],
        input_tokens=attributes["gen_ai.usage.input_tokens"],
        output_tokens=attributes["gen_ai.usage.output_tokens"],
        cache_read_tokens=attributes["gen_ai.usage.cache_read.input_tokens"],
        cache_write_tokens=attributes["gen_ai.usage.cache_creation.input_tokens"],
        reasoning_tokens=attributes["gen_ai.usage.reasoning.output_tokens"],
    )
