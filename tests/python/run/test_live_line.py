"""The line of mfu run on a terminal: in the last row, never among what the program prints, gone when it ends, however
it ends.

A terminal emulator (pyte) reads what a terminal would get; the screen is then what a person sees.
"""

import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pyte = pytest.importorskip("pyte")
ROOT = Path(__file__).resolve().parents[3]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
ROWS, COLUMNS = 24, 80

# Steps a twentieth of a second apart, with prints that end in the middle of a line.
TRAIN = """
import sys, time, torch
print("begin", flush=True)
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
def train(seconds):
    global step
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        layer(torch.randn(2, 8)).sum().backward()
        optimizer.step()
        time.sleep(0.05)
        step += 1
        if step % 4 == 0: print(f"line {step} ", end="", flush=True)
        if step % 4 == 1: print("ends here", flush=True)
step = 0
"""


# Prints as many lines as it is told to while it trains.
TALK = """
import os, termios, threading
mode = termios.tcgetattr(0)
mode[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, mode)
layer = torch.nn.Linear(8, 8)
def talk():
    number = 0
    while True:
        for word in os.read(0, 100).split():
            if word == b"end": os._exit(0)
            for _ in range(int(word)):
                print(f"said {number} whole", flush=True)
                number += 1
threading.Thread(target=talk, daemon=True).start()
while True:
    layer(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.05)
"""

# (rows, columns, lines that are printed then): fuller and emptier screens, smaller and larger ones.
SIZES = [(30, 80, 2), (40, 100, 3), (24, 100, 60), (12, 80, 3), (6, 40, 9), (24, 80, 4), (23, 80, 1), (24, 80, 1)]
SIZES += [(40, 80, 2), (15, 120, 30)]


class Window(pyte.Screen):
    """A screen that is resized as tmux, xterm and VTE do it: the scroll region is whole again, a smaller one loses
    the rows below the cursor first and then those at the top, a larger one gets back what left at the top."""

    def __init__(self, columns, lines):
        self.history = []
        super().__init__(columns, lines)

    def index(self):
        bottom = self.margins.bottom if self.margins else self.lines - 1
        if self.cursor.y == bottom and not (self.margins and self.margins.top):
            self.history.append(self.buffer[0].copy())
        super().index()

    def resize(self, lines=None, columns=None):
        rows = [self.buffer[y].copy() for y in range(self.lines)]
        less = self.lines - lines
        if less > 0:
            below = min(less, self.lines - 1 - self.cursor.y)
            rows = rows[: self.lines - below]
            self.history += rows[: less - below]
            self.cursor.y -= less - below
            rows = rows[less - below :]
        while len(rows) < lines and self.history:
            rows.insert(0, self.history.pop())
            self.cursor.y += 1
        self.lines, self.columns, self.margins = lines, columns, None
        self.buffer.clear()
        for y, row in enumerate(rows):
            self.buffer[y].update(row)
        self.cursor.x = min(self.cursor.x, columns - 1)
        self.dirty.update(range(lines))

    def everything(self):
        """What a person sees after scrolling up."""
        before = ["".join(row[x].data for x in range(max(row, default=-1) + 1)) for row in self.history]
        return [row.rstrip() for row in before + self.display]


class Tmux:
    """The same in a real terminal."""

    def __init__(self, command, folder):
        settings = folder / "tmux.conf"
        settings.write_text("set -g history-limit 10000\nset -g remain-on-exit on\n")
        self.server = ["tmux", "-S", str(folder / "tmux"), "-f", str(settings)]
        self.run("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), shlex.join(command))

    def run(self, *arguments):
        return subprocess.run([*self.server, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout

    def resize(self, rows, columns):
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def say(self, word):
        self.run("send-keys", "-l", word + "\r")

    def display(self):
        return self.run("capture-pane", "-p").split("\n")[:-1]

    def line_is_shown(self, rows):
        """The scroll region ends above the last row. After a resize it includes the last row until the line is drawn
        again."""
        lower, height = self.run("display-message", "-p", "#{scroll_region_lower} #{pane_height}").split()
        return int(lower) == rows - 2 and int(height) == rows and self.display()[-1].startswith("step ")

    def everything(self):
        return [row.rstrip() for row in self.run("capture-pane", "-p", "-J", "-S", "-").split("\n")]

    def wait(self, until, seconds=90):
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, "\n".join(self.display())
            time.sleep(0.05)


class Terminal:
    """A program on its own terminal, as leader of its session."""

    def __init__(self, program, folder, **environment):
        path = folder / "program.py"
        path.write_text(TRAIN + program)
        self.screen = Window(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.shown, self.raw = set(), b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever started the tests may have ignored it (nohup)
            os.chdir(folder)
            os.environ.update({"TERM": "xterm-256color", "OMP_NUM_THREADS": "1", "LANG": "C.UTF-8", **environment})
            os.execv(MFU, [MFU, "run", "--dir", "run", "--peak", "1e12", "--", sys.executable, str(path)])
        self.resize(ROWS, COLUMNS)

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def last_row(self):
        return self.screen.display[-1].strip()

    def line_is_shown(self):
        return self.last_row().startswith("step ")

    def read(self, until=lambda: False, seconds=90):
        """Feeds the screen until the condition holds. Returns True then, and False if the program has ended."""
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, "\n".join(self.screen.display)
            if not select.select([self.terminal], [], [], 0.1)[0]:
                continue
            try:
                more = os.read(self.terminal, 65536)
            except OSError:
                return False
            if not more:
                return False
            self.raw += more
            self.stream.feed(more)
            self.shown.add(self.last_row())
        return True

    def end(self):
        self.read()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.terminal)
        return status

    def is_given_back(self):
        """There are no margins, and the line of steps is not on the screen."""
        margins = self.screen.margins
        whole = margins is None or (margins.top == 0 and margins.bottom == self.screen.lines - 1)
        return whole and not any(row.startswith("step ") for row in self.screen.display)

    def printed_lines(self):
        return [row.strip() for row in self.screen.display if row.startswith("line ")]


def test_it_is_in_the_last_row_and_leaves_the_programs_lines_whole(tmp_path):
    terminal = Terminal("train(4)\nprint('over')", tmp_path)
    assert terminal.read(terminal.line_is_shown)
    assert terminal.read(lambda: "MFU" in terminal.last_row())
    assert terminal.end() == 0
    assert terminal.is_given_back()
    assert terminal.printed_lines() and all(line.endswith(("ends here", "over")) for line in terminal.printed_lines())


def test_clearing_the_screen_and_resetting_the_terminal_bring_it_back(tmp_path):
    terminal = Terminal("train(3)\nprint('\\033c\\033[2J\\033[H' + 'cleared', flush=True)\ntrain(5)", tmp_path)
    assert terminal.read(terminal.line_is_shown)
    assert terminal.read(lambda: terminal.screen.display[0].startswith("cleared"))
    assert terminal.read(terminal.line_is_shown)
    assert terminal.end() == 0 and terminal.is_given_back()


def test_it_moves_with_the_window(tmp_path):
    terminal = Terminal("train(9)", tmp_path)
    assert terminal.read(terminal.line_is_shown)
    for rows, columns in ((30, 100), (12, 40)):
        terminal.resize(rows, columns)
        assert terminal.read(lambda: terminal.line_is_shown() and terminal.screen.margins is not None
                             and terminal.screen.margins.bottom == rows - 2)
    assert sum(row.startswith("step ") for row in terminal.screen.display) == 1
    assert terminal.end() == 0 and terminal.is_given_back()


def said(everything):
    return [row for row in everything if "said" in row]


def test_no_line_of_the_program_is_lost_or_mixed_when_the_window_is_resized(tmp_path):
    terminal, lines = Terminal(TALK, tmp_path), 0
    assert terminal.read(terminal.line_is_shown)
    for rows, columns, more in SIZES:
        terminal.resize(rows, columns)
        assert terminal.read(lambda: terminal.line_is_shown() and terminal.screen.margins is not None
                             and terminal.screen.margins.bottom == rows - 2)
        os.write(terminal.terminal, b"%d\n" % more)
        lines += more
        whole = [f"said {number} whole" for number in range(lines)]
        assert terminal.read(lambda: whole[-1] in terminal.screen.everything())
        assert said(terminal.screen.everything()) == whole
        assert sum(row.startswith("step ") for row in terminal.screen.everything()) == 1
    os.write(terminal.terminal, b"end\n")
    assert terminal.end() == 0 and terminal.is_given_back()


def test_a_resize_right_before_the_end_erases_our_line_and_no_other(tmp_path):
    terminal = Terminal(TALK, tmp_path)
    assert terminal.read(terminal.line_is_shown)
    os.write(terminal.terminal, b"60\n")
    assert terminal.read(lambda: "said 59 whole" in terminal.screen.everything())
    os.kill(terminal.pid, signal.SIGSTOP)  # the program does not hear of the new size
    terminal.resize(30, 90)
    os.write(terminal.terminal, b"end\n")
    time.sleep(1)  # when it continues, the program is gone
    os.kill(terminal.pid, signal.SIGCONT)
    assert terminal.end() == 0 and terminal.is_given_back()
    assert said(terminal.screen.everything()) == [f"said {number} whole" for number in range(60)]


def test_in_a_real_terminal_no_line_is_lost_or_mixed_when_it_is_resized(tmp_path):
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not at hand")
    program = tmp_path / "program.py"
    program.write_text(TRAIN + TALK)
    environment = ["env", "OMP_NUM_THREADS=1", "LANG=C.UTF-8"]
    command = [MFU, "run", "--dir", str(tmp_path / "run"), "--peak", "1e12", "--", sys.executable, str(program)]
    terminal, lines = Tmux(environment + command, tmp_path), 0
    try:
        terminal.wait(lambda: terminal.line_is_shown(ROWS))
        for rows, columns, more in SIZES:
            terminal.resize(rows, columns)
            terminal.wait(lambda: terminal.line_is_shown(rows))
            lines += more
            terminal.say(str(more))
            whole = [f"said {number} whole" for number in range(lines)]
            terminal.wait(lambda: whole[-1] in terminal.everything())
            assert said(terminal.everything()) == whole
        terminal.run("split-window", "-d", "-l", "4", "sleep 1000")  # two panes in one window, with a border
        terminal.wait(lambda: terminal.line_is_shown(SIZES[-1][0] - 5))
        terminal.say("30")
        whole = [f"said {number} whole" for number in range(lines + 30)]
        terminal.wait(lambda: whole[-1] in terminal.everything())
        assert said(terminal.everything()) == whole
        terminal.say("end")
        terminal.wait(lambda: terminal.run("display-message", "-p", "#{pane_dead}").strip() == "1")
        assert said(terminal.everything()) == whole
        assert not any(row.startswith("step ") for row in terminal.everything())
    finally:
        terminal.run("kill-server")


@pytest.mark.parametrize(
    "way", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT]
)
def test_it_is_gone_after_a_signal(tmp_path, way):
    terminal = Terminal("train(60)", tmp_path)
    assert terminal.read(terminal.line_is_shown)
    os.kill(terminal.pid, way)
    if way in (signal.SIGSEGV, signal.SIGABRT):  # if mfu crashes, the program lives on and keeps its terminal
        assert terminal.read(terminal.is_given_back)
        os.killpg(terminal.pid, signal.SIGKILL)
    terminal.end()
    assert terminal.is_given_back()


def test_the_program_ends_with_its_terminal(tmp_path):
    # It prints nothing, since that would fail between the hangup and the signal; and it undoes the handler that the
    # libraries of Debian's torch set.
    quiet = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)
open("number", "w").write(str(os.getpid()))
print = lambda *words, **more: None
train(600)"""
    terminal = Terminal(quiet, tmp_path)
    assert terminal.read(terminal.line_is_shown)
    program = int((tmp_path / "number").read_text())
    os.close(terminal.terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 128 + signal.SIGHUP
    assert not Path(f"/proc/{program}").exists()


def test_ctrl_c_from_the_keyboard(tmp_path):
    terminal = Terminal("train(60)", tmp_path)
    assert terminal.read(terminal.line_is_shown)
    os.write(terminal.terminal, b"\x03")
    assert terminal.end() != 0 and terminal.is_given_back()


def test_it_leaves_when_stopped_and_comes_back_when_continued(tmp_path):
    terminal = Terminal("train(8)", tmp_path)
    assert terminal.read(terminal.line_is_shown)
    # No shell is above the leader of this session, so the kernel ignores SIGTSTP from its keyboard. The test sends
    # SIGSTOP by hand.
    os.kill(terminal.pid, signal.SIGTSTP)
    assert terminal.read(terminal.is_given_back)
    # Like a shell, it continues a process that it has seen stopped.
    assert terminal.read(lambda: Path(f"/proc/{terminal.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    os.killpg(terminal.pid, signal.SIGCONT)
    assert terminal.read(terminal.line_is_shown)
    assert terminal.end() == 0 and terminal.is_given_back()


@pytest.mark.parametrize(
    "drawing, package",
    [
        ("import tqdm\nbar = tqdm.tqdm(total=9)", "tqdm"),
        ("from tqdm.auto import tqdm\nbar = tqdm(total=9)", "tqdm"),
        (
            (
                "from rich.progress import Progress\nbar = Progress()\nbar.start()\nimport atexit;"
                " atexit.register(bar.stop)"
            ),
            "rich",
        ),
        ("import curses\ncurses.initscr()\nimport atexit; atexit.register(curses.endwin)", "curses"),
    ],
)
def test_a_program_that_draws_by_itself_is_left_alone(tmp_path, drawing, package):
    pytest.importorskip(package)
    terminal = Terminal(f"{drawing}\ntrain(4)", tmp_path)
    assert terminal.end() == 0
    assert not any(row.startswith("step ") for row in terminal.shown)
    assert b"\x1b[1;23r" not in terminal.raw or package == "curses"


def test_importing_tqdm_alone_hides_nothing(tmp_path):
    pytest.importorskip("tqdm")
    terminal = Terminal("import tqdm.auto\ntqdm.auto.tqdm(total=3, disable=True)\ntrain(4)", tmp_path)
    assert terminal.read(terminal.line_is_shown)
    assert terminal.end() == 0


def test_a_program_that_reads_key_by_key_has_the_screen(tmp_path):
    terminal = Terminal("import tty; train(3); tty.setcbreak(0); print('MINE', flush=True); train(4)", tmp_path)
    assert terminal.read(terminal.line_is_shown)
    assert terminal.read(lambda: any("MINE" in row for row in terminal.screen.display))
    time.sleep(1)
    terminal.read(lambda: terminal.screen.margins is None or terminal.screen.margins.bottom == ROWS - 1)
    assert terminal.end() == 0


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_do_it_gets_nothing(tmp_path, term):
    terminal = Terminal("train(3)", tmp_path, TERM=term)
    assert terminal.end() == 0
    assert b"\x1b7" not in terminal.raw and not any(row.startswith("step ") for row in terminal.shown)
