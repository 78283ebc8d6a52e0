"""A real Slurm of one node in a folder: munged, slurmctld and slurmd of Debian's packages, on ports of their own."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

CONF = """
ClusterName=mfu
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:16
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")


def missing():
    """The reason why Slurm cannot run here; empty if it can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"Slurm is not at hand: no {', '.join(absent)} (apt-get install slurm-wlm munge)"
    return "" if os.geteuid() == 0 else "Slurm is not at hand: its daemons want root"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Slurm:
    def __init__(self, folder):
        self.folder, self.running = Path(folder), []
        self.environment = dict(
            os.environ, SLURM_CONF=str(self.folder / "slurm.conf"), PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"
        )
        for name in [name for name in self.environment if name.startswith("SLURM_") and name != "SLURM_CONF"]:
            del self.environment[name]

    def start(self, *words):
        log = open(self.folder / f"{words[0]}.out", "w")
        self.running.append(
            subprocess.Popen(words, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        )

    def __enter__(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        os.chmod(self.folder, 0o755)
        (self.folder / "munge.key").write_bytes(os.urandom(1024))
        os.chmod(self.folder / "munge.key", 0o400)
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(
            CONF.format(host=host, port=free_port(), node_port=free_port(), folder=self.folder, cores=os.cpu_count())
        )
        own = [f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
        self.start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *own)
        self.wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.start("slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))
        self.start("slurmd", "-D", "-f", str(self.folder / "slurm.conf"), "-N", host)
        self.wait(lambda: "idle" in self.run("sinfo", "-h", "-o", "%t").stdout, "the node")
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.terminate()
        for process in reversed(self.running):
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
        for process in Path("/proc").glob("[0-9]*"):  # by our configuration, steps may outlive their daemon
            try:
                ours = f"SLURM_CONF={self.folder}/slurm.conf".encode() in (process / "environ").read_bytes()
                if ours and (process / "comm").read_text().strip() == "slurmstepd":
                    os.kill(int(process.name), 9)
            except OSError:
                continue

    def wait(self, ready, what):
        end = time.monotonic() + 60
        while not ready():
            if time.monotonic() > end:
                logs = "\n".join(
                    f"{log.name}: {log.read_text()[-600:]}"
                    for log in (*self.folder.glob("*.log"), *self.folder.glob("*.out"))
                )
                self.__exit__()
                raise RuntimeError(f"{what} does not come up\n{logs}")
            time.sleep(0.3)

    def run(self, *words, **more):
        return subprocess.run(
            words,
            env=dict(self.environment, **more.pop("variables", {})),
            capture_output=True,
            text=True,
            timeout=300,
            **more,
        )

    def begin(self, *words, **more):
        return subprocess.Popen(
            words,
            env=dict(self.environment, **more.pop("variables", {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
