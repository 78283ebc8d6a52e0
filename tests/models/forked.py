#!/usr/bin/env -S python3 -IS
"""Stands in for a Python that has already imported torch and transformers. `forked.py -` hands the script on its
standard input to tests/models/server.py, which forks a child to run it. MFU_FORKED names the server's socket."""

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
