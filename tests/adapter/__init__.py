"""The Pydantic AI adapter, driven without an engine: real agents, scripted models."""
