"""The session of an agent as pure data and pure rules; no clock, no input or output, no Dex."""
