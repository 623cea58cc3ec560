"""The dev engine's transport: gRPC services, dispatch to Workers, timers and long polls.

No rule about Flows lives here; each is a command of `core`.
"""
