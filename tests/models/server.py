"""Imports the libraries once, and forks a child for each script.

    python tests/models/server.py SOCKET    answers until it is ended

forked.py sends a script together with the file descriptors that it prints to."""

import contextlib
import os
import socket
import subprocess
import sys
import time


@contextlib.contextmanager
def serving(path):
    """Inside this block a process that has imported the libraries answers at `path`."""
    running = subprocess.Popen([sys.executable, __file__, str(path)])
    try:
        while not os.path.exists(path):
            if running.poll() is not None:
                raise RuntimeError("the server of libraries did not start")
            time.sleep(0.05)
        yield running
    finally:
        running.kill()
        running.wait()


def serve(path):
    import torch
    torch.set_num_threads(1)
    import torch.utils.flop_counter
    import transformers.masking_utils
    import transformers.modeling_utils
    import transformers.models.auto.modeling_auto  # noqa: F401
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(8)
    os.rename(path + ".new", path)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:  # this child waits for the script to end, so that several scripts can run at a time
            listener.close()
            answer(connection)
            os._exit(0)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def answer(connection):
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 2)
    left, script = int.from_bytes(head, "big"), b""
    while len(script) < left:
        script += connection.recv(1 << 20)
    pid = os.fork()
    if pid == 0:
        for target, descriptor in enumerate(descriptors, 1):
            os.dup2(descriptor, target)
        os.setpgid(0, 0)
        status = 0
        try:
            exec(compile(script, "asked", "exec"), {"__name__": "__main__"})
        except SystemExit as ended:
            status = ended.code or 0
        except BaseException as problem:
            print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
            status = 1
        sys.stdout.flush()
        os._exit(status)
    _, how = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        connection.send(bytes([os.waitstatus_to_exitcode(how) & 255]))


if __name__ == "__main__":
    serve(sys.argv[1])
