"""Spans of real sessions, whole: what OpenTelemetry is told of turns, model calls and tool calls."""
