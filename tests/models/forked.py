#!/usr/bin/env -S python3 -IS
"""Stands in for a Python that has imported torch and transformers already: `forked.py -` hands its script to the
process that
tests/models/server.py waits in (MFU_FORKED names its socket), which forks a child for it."""

import os
import socket
import sys

script = sys.stdin.buffer.read()
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ["MFU_FORKED"])
    socket.send_fds(server, [len(script).to_bytes(8, "big")], [1, 2])
    server.sendall(script)
    status = server.recv(1)
sys.exit(status[0] if status else 1)
