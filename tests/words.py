"""Checks that the pages and --help are true: every command, option, file, link, setting, variable and name that they
mention exists, and the README's example prints what it shows."""

import functools
import os
import re
import subprocess
import tempfile

from expected import ROOT

MFU = ROOT / "build" / "release" / "mfu"
TOP = ("apps", "bench", "cmake", "deploy", "docs", "examples", "include", "python", "src", "tests", "web")
SOURCE = re.compile(r"[\w./-]+\.(?:cc|h|py|sh|csv|cmake|js|css|jsonl)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
SCRIPT = re.compile(r"(?:bench|tests|deploy)/[\w./-]+\.py")
FOREIGN = {"--enforce-eager", "--ipc", "--net", "--install"}  # options of vLLM, containers and CMake
TESTS = ("lint", "tidy", "words", "sets")  # names for ./test in pages; "sets" begins what it does
OTHERS = {  # names in programs of others, and one that is made of parts
    "fused_linear", "cross_entropy_loss", "multimem_all_reduce_kernel", "kernel_wait", "mfu_before_range"}
FORMER = "From 0.1 to 0.2"  # docs/api.md lists headers of 0.1.0 behind these words


def pages():
    """All pages of the product. CHANGELOG is not among them, because it names what was there in the past."""
    found = [ROOT / name for name in ("README.md", "README.zh.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    return [page for page in [*found, *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()]


def fenced(text):
    """((kind, block) of each fenced block, the text without them)."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
    return blocks, re.sub(r"^```\w*\n.*?^```", "", text, flags=re.S | re.M)


def lines_for_a_shell(text):
    """The lines of the blocks that a reader may type, fenced or indented, and the spans."""
    blocks, prose = fenced(text)
    indented = re.findall(r"(?<=\n\n)(?: {4}.*\n+)+", prose)
    shell = [block for kind, block in blocks if kind in ("sh", "console", "bash", "")]
    return [line.strip() for block in [*shell, *indented] for line in block.splitlines()] + spans(prose)


def spans(text):
    return re.findall(r"`([^`\n]+)`", text)


@functools.cache
def help_of(*words):
    done = subprocess.run([MFU, *words, "--help"], capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def commands():
    return set(re.findall(r"^  ([a-z]+) +\S", help_of(), re.M)) - {"mfu"}


@functools.cache
def hidden_options():
    """Options that --help leaves out because only our own programs use them."""
    sources = "".join(path.read_text() for path in (ROOT / "apps" / "mfu").glob("cmd_*.cc"))
    return set(re.findall(r'add_(?:option|flag)\("(--[a-z-]+)"[^;]*->group\(""\)', sources))


@functools.cache
def options_of(*words):
    """The options that --help lists."""
    heads = re.findall(r"^ {2,}(-.*?)(?:  |$)", help_of(*words), re.M)
    return {option for head in heads for option in OPTION.findall(head)} | hidden_options()


@functools.cache
def any_options():
    return set().union(FOREIGN, options_of(), *(options_of(name) for name in commands()))


def typed(lines):
    """The calls of mfu in these lines, without the program's own words after `--`."""
    for line in lines:
        if line.startswith("mfu = "):
            continue
        for call in re.findall(r"(?:^|(?<=[\s\"'(])(?<!--tools ))mfu [a-z-].*", line):
            yield re.split(r" -- | \| |  #|; |&& |`", call)[0].split()


def wrong_call(words):
    """What is wrong with a call, or None."""
    name = words[1] if re.fullmatch(r"[a-z]+", words[1]) else None
    if name is not None and name not in commands():
        return f"there is no command {name}"
    known = options_of(name) if name else options_of()
    missing = [option for word in words[1:] for option in OPTION.findall(word) if option not in known]
    return f"mfu {name or ''} has no option {missing[0]}" if missing else None


def wrong_calls_in(lines):
    found = [(words, wrong_call(words)) for words in typed(lines) if len(words) > 1]
    return [f"`{' '.join(words)}`: {problem}" for words, problem in found if problem]


def options_in(file):
    """The options that a script of ours names."""
    return set(OPTION.findall((ROOT / file).read_text())) if (ROOT / file).is_file() else set()


def wrong_scripts_in(lines):
    """Calls of ./run, ./test, ./package and of scripts name only what exists, and so do options that stand alone."""
    scripts = {script for line in lines for script in SCRIPT.findall(line)}
    alone = any_options().union(*map(options_in, scripts), options_in("test"), options_in("cmake/package/package.py"))
    told = []
    for line in lines:
        known = alone if line.startswith("-") else None
        for script in SCRIPT.findall(line):
            known = options_in(script)
        for name in re.findall(r"(?:^|(?<=[\s(]))\./((?:run|test|pack)\w*)(?![\w./-])", line):
            known = options_in(name) | (options_in("cmake/package/package.py") if name == "package" else set())
            told += [] if (ROOT / name).is_file() else [f"`{line}`: there is no ./{name}"]
        for name in re.findall(r"(?:^|(?<=[\s(]))\./test ([a-z]\w*)", line):
            known_test = name in TESTS or (ROOT / "tests" / "python" / name).is_dir()
            told += [] if known_test else [f"`{line}`: no test {name}"]
        if known is not None and not line.startswith("./run "):
            told += [f"`{line}`: no option {each}" for each in OPTION.findall(line) if each not in known]
    return told


def wrong_calls(page):
    lines = lines_for_a_shell(page.read_text())
    return "\n".join(wrong_calls_in(lines) + wrong_scripts_in(lines)) or None


def wrong_help(name):
    """The examples of --help call what exists, and its text names options and files that exist."""
    text = re.sub(r" -- .*", "", re.sub(r" \\\n +", " ", help_of(*name)))
    examples = re.findall(r"^  (?:\S+ )?(mfu .*)$", text.partition("\nExamples\n")[2], re.M)
    told = wrong_calls_in(examples) if examples or not name else ["no examples"]
    told += [f"no option {each}" for each in OPTION.findall(text) if each not in any_options()]
    told += [f"no file {each}" for each in re.findall(r"\b(?:docs|deploy|examples)/[\w./-]*\w", text)
             if not (ROOT / each).exists()]
    return "\n".join(told) or None


@functools.cache
def code():
    """The text of all sources, of public headers, and of the Python package."""
    names, _ = tree()
    ours = [name for name in names if re.match(r"(src|apps|include|python|cmake|tests)/|(run|test|package)$", name)
            and "/fuzz/corpus/" not in name and not name.endswith((".md", "words.py"))]
    texts = {name: (ROOT / name).read_text(errors="replace") for name in ours if (ROOT / name).is_file()}
    join = lambda start: "\n".join(text for name, text in texts.items() if name.startswith(start))  # noqa: E731
    return join(""), join("include/"), join("python/mfu/")


@functools.cache
def known_words():
    return set(re.findall(r"\w+", code()[0])) | {name.split(".")[0] for name in tree()[1]} | OTHERS


def wrong_names(page):
    """Variables, names of C++ and Python, settings, keys, codes and tests exist."""
    text, (everything, headers, package) = page.read_text(), code()
    told = [each for each in re.findall(r"\bMFU_[A-Z0-9_]+\b", text) if not re.search(rf"\b{each}\b", everything)]
    told += [f"mfu::{each}" for name in re.findall(r"\bmfu::(\w+(?:::\w+)*)", text) for each in name.split("::")
             if not re.search(rf"\b{each}\b", headers)]
    for name in re.findall(r"(?<![\w./:-])mfu\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?!\w|/\d|\.\w)", text):
        told += [f"mfu.{name}" for each in name.split(".")
                 if name != "h" and not re.search(rf"(?:def|class|import|as) {each}\b|\b{each}(?:\.py|:| =)", package)
                 and not (ROOT / "python" / "mfu" / f"{each}.py").exists() and each != "_core"]
    rules = (ROOT / "deploy" / "rules.yml").read_text()
    told += [each for each in re.findall(r"\brun:\w+:\w+", text) if f"record: {each}\n" not in rules]
    if page.name != "models.md":  # its messages are those of transformers
        told += [each for span in spans(fenced(text)[1])
                 for each in re.findall(r"(?<![\w-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w/-])", span)
                 if each not in known_words()]
    if page.name == "monitor.md":
        keys = (ROOT / "src" / "monitor" / "config_keys.cc").read_text()
        rows = re.findall(r"^\| (`.*?) \|", text.partition("## Settings")[2].partition("## Sinks")[0], re.M)
        for word in re.findall(r"[a-z_]+", " ".join(rows)):
            told += [] if re.search(rf'["._]{word}["._]|"{word}"', keys) else [f"the setting {word}"]
    return "\n".join(f"there is no {each}" for each in told) or None


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
    """Files that a page names with their folder exist. ARCHITECTURE and docs/api.md name sources without a folder."""
    _, prose = fenced(page.read_text().partition(FORMER)[0])
    (names, last), strict = tree(), ("ARCHITECTURE.md", "api.md")
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
            elif page.name in strict and SOURCE.fullmatch(word) and word.rsplit("/", 1)[-1] not in last:
                told.append(f"`{span}`: no file of that name")
    for word in re.findall(rf"(?<![\w/.`-])((?:{'|'.join(TOP)})/[\w./-]*\.\w+)", prose):
        if word not in names:
            told.append(f"{word} is not in the tree")
    return "\n".join(told) or None


NUMBER = r"(?<![A-Za-z\d])\d[\d.,]*(?: ?(?:[kMGTP]?FLOP/s|[mµn]?s|GHz|%|steps?)\b)?%?"
HOST = ("computing", "in the loader", "waiting for the device", "waiting for files", "sleeping",
        "ready while others had the cores", "waiting", "")


def rows(text):
    """The lines of a summary by their first word, continued lines joined."""
    text = re.sub(r"\n {5,}", " ", text)
    return [(line.split()[0], line) for line in text.splitlines() if re.match(r"[A-Za-z]+ ", line)]


def pieces(line):
    """What stays the same in a line if its numbers, the device and the judgement are others."""
    line = re.sub(r"(MFU [\d.]+%) +[a-z ]+?(?= {2,})", r"\1", line)  # without the rating
    line = re.sub(r"\(.*\)(?=;)", "0", line)
    return [piece for piece in re.split(NUMBER, line.partition(" ")[2].lstrip()) if piece.strip()]


def wrong_row(kind, line, said):
    """Whether the row of a README could stand in what was printed."""
    if kind == "host":
        names = [name.strip(" ,") for name in pieces(line)]
        return not all(name in HOST for name in names)
    if kind in ("first", "ceiling"):  # these depend on the machine, so the sources must have the sentence
        source = (ROOT / "src" / "sinks" / ("sentences.txt" if kind == "first" else "text_run.cc")).read_text()
        if kind == "ceiling":
            return not re.search(r"by \S.*, measured: .* of it is reached$", line) or "measured: {} of it" not in source
        return not all(f" {sentence.strip()}\n" in source for sentence in re.split(r"\. |\.$", line[11:])[:2])
    if kind == "run":  # in whichever folder
        return not any(re.sub(r"/\S*/(?=mfu-runs/)|\d+", "", line) == re.sub(r"/\S*/(?=mfu-runs/)|\d+", "", each)
                       for _, each in said) or " /" not in line
    like = [each for word, each in said if word == kind]
    return not any(re.search(".*?".join(map(re.escape, pieces(line))), each) for each in like)


@functools.cache
def example_run(script):
    """(what the example prints, the exit status); None without torch, which set-up has told."""
    python = os.environ.get("MFU_PYTHON", "")
    if not python or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        return None
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([MFU, "run", "--", python, ROOT / script], capture_output=True, text=True, timeout=600,
                              cwd=folder, env=dict(os.environ, OMP_NUM_THREADS="1", COLUMNS="100"))
    return done.stdout + done.stderr, done.returncode


def run_example(page):
    """The run that a README shows is what the example prints, row by row, except for numbers and what depends on the
    machine. Both READMEs show the same run."""
    form = r"```console\n\$ (mfu run -- python (\S+))\n(.*?)```"
    block = re.search(form, page.read_text(), re.S)
    if not block:
        return "there is no example of mfu run"
    if block[0] != re.search(form, (ROOT / "README.md").read_text(), re.S)[0]:
        return "README.md shows another run"
    if (done := example_run(block[2])) is None:
        return None
    said, status = done
    if status != 0:
        return said[-2000:]
    exact = ("2.465 TFLOP of the model, 2.481 TFLOP executed", "3,540 operator calls counted, none left out")
    wrong = [text for text in exact if text not in said or text not in block[3]]
    wrong += [line for kind, line in rows(block[3]) if wrong_row(kind, line, rows(said))]
    return f"not in what it prints: {wrong}\n{said[-2000:]}" if wrong else None


def tests():
    for name in ("README.md", "README.zh.md"):
        yield f"words/example of {name}", lambda name=name: run_example(ROOT / name)
    for page in pages():
        name = page.relative_to(ROOT)
        yield f"words/commands of {name}", lambda page=page: wrong_calls(page)
        yield f"words/links of {name}", lambda page=page: wrong_links(page)
        if "decisions" not in name.parts:  # they tell what was
            yield f"words/files of {name}", lambda page=page: wrong_files(page)
            yield f"words/names of {name}", lambda page=page: wrong_names(page)
    for name in ["", *sorted(commands())]:
        yield f"words/help of mfu {name}", lambda name=name: wrong_help([name] if name else [])
