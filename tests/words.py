"""Checks that the pages are true: every command, option, file and link that README, ARCHITECTURE and docs/ name
exists."""

import functools
import os
import re
import subprocess
import tempfile

from expected import ROOT

MFU = ROOT / "build" / "release" / "mfu"
TOP = ("apps", "bench", "cmake", "deploy", "docs", "examples", "include", "python", "src", "tests", "web")
SOURCE = re.compile(r"[\w./-]+\.(?:cc|h|py|sh|csv|cmake|js|css|jsonl)")


def pages():
    """All pages of the product. CHANGELOG is not among them, because it names what was there in the past."""
    found = [ROOT / name for name in ("README.md", "README.zh.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    return [page for page in [*found, *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()]


def fenced(text):
    """(the fenced and indented blocks, the text without them)."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
    return blocks, re.sub(r"^```\w*\n.*?^```", "", text, flags=re.S | re.M)


def spans(text):
    return re.findall(r"`([^`\n]+)`", text)


@functools.cache
def help_of(*words):
    done = subprocess.run([MFU, *words, "--help"], capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def commands():
    return set(re.findall(r"^  ([a-z]+) +\S", help_of(), re.M))


@functools.cache
def hidden_options():
    """Options that --help leaves out because only our own programs use them."""
    sources = "".join(path.read_text() for path in (ROOT / "apps" / "mfu").glob("cmd_*.cc"))
    return set(re.findall(r'add_(?:option|flag)\("(--[a-z-]+)"[^;]*->group\(""\)', sources))


def typed(text):
    """Every line or span of a page that calls mfu, without the program's own words after `--`."""
    blocks, prose = fenced(text)
    lines = [line for kind, block in blocks if kind in ("sh", "console", "bash", "") for line in block.splitlines()]
    for words in [*(line.strip().removeprefix("$ ") for line in lines), *spans(prose)]:
        if words.startswith("mfu "):
            yield re.split(r" -- | \| |  #|; |&& |`", words)[0].split()


def wrong_call(words):
    """What is wrong with a call, or None."""
    name = words[1]
    if not re.fullmatch(r"[a-z]+", name) or name == "mfu":
        return None
    if name not in commands():
        return f"there is no command {name}"
    known = set(re.findall(r"--[a-z][a-z0-9-]*", help_of(name))) | hidden_options()
    for word in words[2:]:
        for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", word):
            if option not in known:
                return f"mfu {name} has no option {option}"
    return None


def wrong_calls(page):
    found = [(words, wrong_call(words)) for words in typed(page.read_text()) if len(words) > 1]
    told = [f"`{' '.join(words)}`: {problem}" for words, problem in found if problem]
    return "\n".join(told) or None


def wrong_links(page):
    """Links lead to files of the tree; a link with an anchor leads to a heading."""
    _, prose = fenced(page.read_text())
    told = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path, _, place = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / path) if path else page
        if not file.exists():
            told.append(f"link to {target}: no such file")
        elif place and file.suffix == ".md" and place not in headings(file):
            told.append(f"link to {target}: no such heading")
    return "\n".join(told) or None


@functools.cache
def headings(page):
    titles = re.findall(r"^#+ +(.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@functools.cache
def tree():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split() if listed.returncode == 0 else [
        str(path.relative_to(ROOT)) for top in TOP for path in (ROOT / top).rglob("*")]
    return names, {name.rsplit("/", 1)[-1] for name in names}


def wrong_files(page):
    """Files that a page names with their folder exist. ARCHITECTURE names sources without a folder."""
    _, prose = fenced(page.read_text())
    names, last = tree()
    told = []
    for span in spans(prose):
        for word in span.split():
            word = word.rstrip(".,:;)").removeprefix("../")
            if any(mark in word for mark in "*<>{}…$=") or "NAME" in word:
                continue
            if word.split("/")[0] in TOP and "/" in word and re.fullmatch(r"[\w./-]+", word):
                word = word if f"{word}.cc" not in names else f"{word}.cc"  # the program that it makes
                if not any(name == word.rstrip("/") or name.startswith(word.rstrip("/") + "/") for name in names):
                    told.append(f"`{span}`: {word} is not in the tree")
            elif page.name == "ARCHITECTURE.md" and SOURCE.fullmatch(word) and word.rsplit("/", 1)[-1] not in last:
                told.append(f"`{span}`: no file of that name")
    return "\n".join(told) or None


def run_example(page):
    """The run that a README shows equals a run of the example, line for line, except for numbers and words that
    vary."""
    block = re.search(r"```console\n\$ (mfu run -- python (\S+))\n(.*?)```", page.read_text(), re.S)
    if not block:
        return "there is no example of mfu run"
    python = os.environ.get("MFU_PYTHON", "")
    if not python or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        return None  # without torch there is nothing to run, and set-up says so
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([MFU, "run", "--dir", f"{folder}/run", "--", python, ROOT / block[2]],
                              capture_output=True, text=True, timeout=600, env=dict(os.environ, OMP_NUM_THREADS="1"))
    said = done.stdout + done.stderr
    if done.returncode != 0:
        return said[-2000:]
    shown = re.findall(r"^([A-Za-z]+) {2,}\S", block[3], re.M)
    missing = [word for word in shown if word not in ("first", "ceiling") and not re.search(f"^{word} ", said, re.M)]
    exact = [text for text in ("2.465 TFLOP of the model, 2.481 TFLOP executed", "3,540 operator calls counted")
             if text not in said or text not in block[3]]
    return f"not in what it prints: {missing + exact}\n{said[-2000:]}" if missing or exact else None


def tests():
    for name in ("README.md", "README.zh.md"):
        yield f"words/example of {name}", lambda name=name: run_example(ROOT / name)
    for page in pages():
        name = page.relative_to(ROOT)
        yield f"words/commands of {name}", lambda page=page: wrong_calls(page)
        yield f"words/links of {name}", lambda page=page: wrong_links(page)
        if "decisions" not in name.parts:  # they tell what was
            yield f"words/files of {name}", lambda page=page: wrong_files(page)
