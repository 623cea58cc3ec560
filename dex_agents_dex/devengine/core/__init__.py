"""The dev engine's state machine: commands in, a transaction out.

Pure: nothing here may read a clock, draw a random number, touch a file or a socket, or import
`grpc`, `sqlite3` or `asyncio`. Instants and new identifiers enter through the `Transaction`.
"""
