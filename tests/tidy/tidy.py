"""The layout, names and limits of the codebase, as a test that fails (CONTRIBUTING.md says what they are for)."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# Who may include whom: data flows right, includes point left.
STAGES = {
    "base": set(),
    "hardware": {"base"},
    "model": {"base"},
    "ops": {"base"},
    "record": {"base"},
    "trace": {"base", "ops"},
    "measure": {"base", "hardware", "model", "ops", "record"},
    "utilization": {"base", "hardware", "model", "ops", "record", "trace", "measure"},
    "attribution": {"base", "hardware", "model", "ops", "record", "trace", "measure", "utilization"},
    "report": {"base", "hardware", "model", "ops", "record", "trace", "measure", "utilization", "attribution"},
    "sinks": {"base", "report"},
    "monitor": {
        "base",
        "hardware",
        "model",
        "ops",
        "record",
        "trace",
        "measure",
        "utilization",
        "attribution",
        "report",
        "sinks",
        "serve",
    },
    "serve": {
        "base",
        "hardware",
        "model",
        "ops",
        "record",
        "trace",
        "measure",
        "utilization",
        "attribution",
        "report",
        "sinks",
        "monitor",
    },
    "torch": {"base", "ops", "record"},
}
# The stage of each public header, so that the same arrows hold for them.
HEADERS = {
    "result": "base",
    "units": "base",
    "hardware": "hardware",
    "machine": "hardware",
    "model": "model",
    "workload": "model",
    "ops": "ops",
    "record": "record",
    "trace": "trace",
    "measure": "measure",
    "utilization": "utilization",
    "attribution": "attribution",
    "report": "report",
    "run": "report",
    "steps": "report",
    "sink": "sinks",
    "monitor": "monitor",
    "c": "monitor",
    "observer": "torch",
    "mfu": None,
}
MOST_HEADERS = 20
# What the command line may use that is not in the public headers: terminal manners, and what only `mfu run` does.
MANNERS = {"base/settings.h", "base/suggest.h", "record/drain.h", "sinks/table.h"}
# Folders that may include each third-party library.
ROOMS = {
    "yaml-cpp/": {"base", "trace"},
    "simdjson": {"base", "trace"},
    "isa-l": {"base", "trace"},
    "zstd": {"base", "trace"},
    "hwloc": {"hardware"},
    "perfmon/": {"hardware"},
    "boost/": {"serve"},
    "curl/": {"sinks"},
    "CLI/": {"apps"},
    "torch/": {"torch", "tests"},
    "ATen/": {"torch", "tests"},
    "c10/": {"torch", "tests"},
}
DATA = {".csv"}
# Files that still have lines of more than 120 columns. The list may only get shorter.
STILL_WIDE = (
    "python/mfu/compat.py", "tests/python/model_families.py", "tests/python/monitor/test_manners.py",
)


def tracked():
    """The files that git would take. Without git, or outside a checkout: everything but what we generate."""
    try:
        run = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
        listed = [ROOT / line for line in run.stdout.splitlines()]
    except FileNotFoundError:
        listed = []
    if not listed:
        made = {"build", ".venv", ".git", "__pycache__", ".pytest_cache"}
        listed = [path for path in ROOT.rglob("*") if not made & set(path.relative_to(ROOT).parts)]
    return [path for path in listed if path.is_file()]


def folder_of(path):
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "src" else parts[0]


def include_problems(path):
    folder, name = folder_of(path), path.relative_to(ROOT)
    public = name.parts[:2] == ("include", "mfu")
    stage = HEADERS.get(path.stem) if public else folder
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if not found:
            continue
        target = found.group(1)
        for prefix, rooms in ROOMS.items():
            if target.startswith(prefix) and folder not in rooms:
                yield f"{name}:{number}: {target} stays in {', '.join(sorted(rooms))}"
        if target.startswith("mfu/"):
            to = HEADERS.get(Path(target).stem, "unknown")
            if to == "unknown":
                yield f"{name}:{number}: {target} has no stage: add it to HEADERS in {Path(__file__).name}"
            elif stage in STAGES and to not in STAGES[stage] | {stage, None}:
                yield f"{name}:{number}: {stage} includes {target} of {to}: the arrow points right"
        elif public and line.strip().startswith('#include "'):
            yield f"{name}:{number}: a public header includes only public headers"
        elif "/" in target and target.split("/")[0] in STAGES and (ROOT / "src" / target.split("/")[0]).is_dir():
            to = target.split("/")[0]
            if folder == "apps" and target in MANNERS:
                continue
            if folder in ("apps", "examples", "bench", "python"):
                yield f"{name}:{number}: {folder} includes {target}: only include/mfu/ is for it"
            elif folder in STAGES and to not in STAGES[folder] | {folder}:
                yield f"{name}:{number}: {folder} includes {target}: the arrow points right"


def length_problems(path):
    name = path.relative_to(ROOT)
    lines = path.read_text().splitlines()
    limit = {".h": 250 if name.parts[0] == "include" else 150, ".cc": 500, ".py": 500, ".sh": 500, ".js": 500}.get(
        path.suffix
    )
    if name.as_posix() == "apps/mfu/main.cc":
        limit = 60
    if limit and len(lines) > limit:
        yield f"{name}: {len(lines)} lines, the limit is {limit}"
    if path.suffix in (".h", ".cc"):
        for number, line in enumerate(lines, 1):
            quoted = '\\"' in line or 'R"' in line  # text that must stand on one line
            if len(line) > 100 and not quoted:
                yield f"{name}:{number}: {len(line)} columns, the limit is 100"


def column_problems(path):
    """Lines of Python and Markdown have at most 120 columns. Tables and code in Markdown may be wider."""
    name = path.relative_to(ROOT)
    if name.as_posix().startswith(STILL_WIDE):
        return
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if path.suffix == ".md":
            fenced ^= line.lstrip().startswith("```")
            if fenced or line.startswith(("|", "    ", "![")) or re.fullmatch(r"`[^`]*`", line):
                continue
        if len(line) > 120:
            yield f"{name}:{number}: {len(line)} columns, the limit is 120"


def name_problems(path):
    """The bare word `flops` is used only for what the contract calls so, and every TODO has an issue number."""
    name = path.relative_to(ROOT)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = re.sub(r'R?"(\\.|[^"\\])*"', '""', line.split("//")[0])
        if re.search(r"\b(?:\w*_)?flops(?:_\w*)?\b", code) and not re.search(
            r"get_gpu_peak_flops|flops_command|mfu\.flops", code
        ):
            yield f"{name}:{number}: `flops`: flop is a count, flop_per_s a rate"
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!.*#\d)", line):
            yield f"{name}:{number}: a TODO without an issue number"
        if re.match(r"TEST(_[FP])?\(\w+, [A-Z]", line):
            yield f"{name}:{number}: a test's name is a sentence_in_small_letters"
        if re.search(r"\b(Manager|Helper|Util)s?\b", code):
            yield f"{name}:{number}: a name that says nothing"


BY_A_PEAK = re.compile(r"/=?\s+[\w.>\-*\[\]()]*(?:peak|per_s\b)")


def peak_problems(path):
    """Only utilization/ divides need by time and peak. hardware/ knows clocks and measures. A rate that is only printed
    is divided by a unit."""
    name = path.relative_to(ROOT)
    if (
        folder_of(path) in ("utilization", "hardware", "tests", "bench")
        or path.name in ("units.h", "reference.cc")
        or path.stem.endswith("_test")
    ):
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = re.sub(r'R?"(\\.|[^"\\])*"', '""', line.split("#" if path.suffix == ".py" else "//")[0])
        if BY_A_PEAK.search(code):
            yield f"{name}:{number}: divides by a peak: ask mfu/utilization.h"


def header_problems(path):
    name = path.relative_to(ROOT)
    lines = path.read_text().splitlines()
    if not lines[0].startswith("//"):
        yield f"{name}: a header opens with what it is"
    if "#pragma once" not in lines:
        yield f"{name}: #pragma once is missing"


DEFINED = re.compile(
    r"^(?:(?:struct|class|union|enum class)\s+(?:alignas\(\w+\)\s+)?(\w+)\b(?!\s*;)|inline (?:thread_local )?const\w*"
    r" [\w:<>]+ (\w+))"
)


def public_problems(names):
    """There are few public headers, and each has a stage."""
    if len(names) > MOST_HEADERS:
        yield f"include/mfu: {len(names)} headers, the limit is {MOST_HEADERS}: put it into the noun it belongs to"
    yield from (f"include/mfu/{name}.h: has no stage: add it to HEADERS" for name in names if name not in HEADERS)
    yield from (f"{name}: in HEADERS, and not in include/mfu" for name in HEADERS if name not in names)


def twice_problems(headers):
    """No two headers define the same type or constant in one namespace: if both are linked, one would get the other's
    destructor."""
    first = {}
    for path in headers:
        namespace = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if opened := re.match(r"namespace ([\w:]+) \{", line):
                namespace = opened.group(1)
            elif defined := DEFINED.match(line):
                name = f"{namespace}::{defined.group(1) or defined.group(2)}"
                place = first.setdefault(name, path)
                if place != path:
                    yield f"{path.relative_to(ROOT)}:{number}: {name} is defined in {place.relative_to(ROOT)} too"


HIDDEN = re.compile(
    r"(?:struct|class|enum class|union)\s+(\w+)(?!.*;\s*$)|(?:[\w:<>,&*\[\]() ]+?[\s&*])(\w+)(\(|\[|\{| =|;)"
)


def hidden_names(path):
    """What a source keeps in unnamed namespaces: types and constants by name, functions by name and parameter types."""
    inside, lines = False, re.sub(r'R"(\w*)\(.*?\)\1"', '""', path.read_text(), flags=re.S).splitlines()
    for number, line in enumerate(lines):
        if line in ("namespace {", "}  // namespace"):
            inside = line == "namespace {"
        elif (
            inside
            and line[:1].isalpha()
            and not line.startswith(("template", "using", "return", "static_assert"))
            and (found := HIDDEN.match(line))
        ):
            name = found[1] or found[2]
            if found[3] == "(":
                head = " ".join(lines[number:number + 12]).split(name + "(", 1)[1]
                depth, end = 1, 0
                while depth and end < len(head):
                    depth += {"(": 1, ")": -1}.get(head[end], 0)
                    end += 1
                name += (
                    "("
                    + ", ".join(re.sub(r"\s*\b\w+\s*(=.*)?$", "", part.strip()) for part in head[: end - 1].split(","))
                    + ")"
                )
            yield number + 1, name


def unity_problems(sources):
    """The build compiles several sources of a folder as one. A name that two of them hide would be defined twice if
    they share a batch."""
    first = {}
    for path in sources:
        listing = path.parent / "CMakeLists.txt"
        apart = (
            re.findall(r"set_source_files_properties\(([^)]*)SKIP_UNITY", listing.read_text())
            if listing.exists()
            else []
        )
        if path.name in " ".join(apart):
            continue
        for number, name in hidden_names(path):
            place = first.setdefault((path.parent, name), path)
            if place != path:
                yield f"{path.relative_to(ROOT)}:{number}: {name} is in {place.name} too: they may be compiled as one"


def cmake_problems():
    """Every source is listed by name in the CMakeLists of its folder."""
    for listing in (ROOT / "src").glob("*/CMakeLists.txt"):
        text = listing.read_text()
        if "GLOB" in text:
            yield f"{listing.relative_to(ROOT)}: sources are listed by name, never globbed"
        for source in listing.parent.glob("*.cc"):
            if not re.search(rf"(?<![\w/]){re.escape(source.name)}", text):
                yield f"{source.relative_to(ROOT)}: not listed in {listing.relative_to(ROOT)}"


def embedding_problems(path):
    """A source that contains other files is compiled again when they change. CMake drops OBJECT_DEPENDS if a source is
    compiled together with others."""
    listing = path.parent / "CMakeLists.txt"
    if "\nMFU_EMBED(" not in path.read_text():
        return
    wanted = rf"{path.name} PROPERTIES\s+SKIP_UNITY_BUILD_INCLUSION ON\s+OBJECT_DEPENDS"
    if not re.search(wanted, listing.read_text()):
        yield f"{path.relative_to(ROOT)}: needs SKIP_UNITY_BUILD_INCLUSION and OBJECT_DEPENDS in its CMakeLists.txt"


def machine_problems(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if re.search(r"(?<![\w.])/(work|farm|root)/\w|bash_jobs", line):
            yield f"{path.relative_to(ROOT)}:{number}: a path of one machine"


def format_problems(sources):
    try:
        run = subprocess.run(
            ["clang-format-19", "--dry-run", "--Werror", *map(str, sources)], capture_output=True, text=True
        )
    except FileNotFoundError:
        return ["clang-format-19 is not installed (Debian: apt-get install clang-format-19)"]
    return [] if run.returncode == 0 else run.stderr.splitlines()[:20]


def tests():
    files = tracked()
    sources = [path for path in files if path.suffix in (".h", ".cc")]
    code = sources + [path for path in files if path.suffix in (".py", ".sh")]
    text = [path for path in files if path.suffix not in {".png", ".gz"} | DATA and path != Path(__file__)]

    def over(check, paths):
        problems = [problem for path in paths for problem in check(path)]
        return "\n".join(problems) or None

    yield "tidy/includes point left", over(include_problems, sources)
    yield "tidy/files are short", over(length_problems, code)
    yield "tidy/lines are short", over(column_problems, [path for path in files if path.suffix in (".py", ".md")])
    yield "tidy/names", over(name_problems, sources)
    yield "tidy/only utilization divides by a peak", over(
        peak_problems, sources + [path for path in files if path.suffix == ".py"]
    )
    yield "tidy/headers open with what they are", over(
        header_problems, [path for path in sources if path.suffix == ".h"]
    )
    yield (
        "tidy/public headers are few",
        "\n".join(public_problems([path.stem for path in (ROOT / "include/mfu").glob("*.h")])) or None,
    )
    ours = [
        path
        for path in sources
        if path.suffix == ".h" and "fake" not in path.parts and path.relative_to(ROOT).parts[0] in ("include", "src")
    ]
    yield "tidy/one name, one type", "\n".join(twice_problems(ours)) or None
    together = [
        path
        for path in sources
        if path.suffix == ".cc"
        and folder_of(path) in STAGES.keys() | {"apps", "python"}
        and "fake" not in path.parts
        and not path.stem.endswith("_test")
        and path.stem not in ("probe", "reference")
    ]
    yield "tidy/names that sources hide are their own", "\n".join(unity_problems(together)) or None
    yield "tidy/sources are listed", "\n".join(cmake_problems()) or None
    yield "tidy/what sources contain is watched", over(embedding_problems, sources)
    yield "tidy/no path of one machine", over(machine_problems, text)
    yield "tidy/clang-format", "\n".join(format_problems(sources)) or None
    yield from self_tests()


def self_tests():
    """The checks above fail when they should."""
    def fails(check, relative, text):
        path = ROOT / relative
        class Fake(type(path)):
            def read_text(self, *_, **__):
                return text
        return bool(list(check(Fake(path))))

    cases = {
        "an arrow that points right": (include_problems, "src/base/x.cc", '#include "hardware/names.h"\n'),
        "a public arrow that points right": (include_problems, "include/mfu/hardware.h", '#include "mfu/report.h"\n'),
        "an app that reaches behind the public headers": (
            include_problems,
            "apps/mfu/x.cc",
            '#include "base/text.h"\n',
        ),
        "a public header too many": (lambda path: public_problems([*HEADERS, path.stem]), "include/mfu/x.h", ""),
        "a library outside its room": (include_problems, "src/report/x.cc", "#include <hwloc.h>\n"),
        "a file inside a source that nothing watches": (
            embedding_problems,
            "src/base/text.cc",
            'namespace mfu {\nMFU_EMBED(mfu_x, MFU_X_DIR "/x.csv");\n',
        ),
        "a file too long": (length_problems, "src/base/x.cc", "int x;\n" * 501),
        "a line of Python too long": (column_problems, "bench/x.py", "x = 1  # " + "y" * 112 + "\n"),
        "a line of Markdown too long": (column_problems, "docs/x.md", "| a table |\n" + "word " * 25 + "\n"),
        "a main too long": (length_problems, "apps/mfu/main.cc", "int x;\n" * 61),
        "a division by a peak": (peak_problems, "src/report/x.cc", "double mfu = rate.per_s / peak->per_s;\n"),
        "a division by a peak in Python": (peak_problems, "python/mfu/x.py", "mfu = flop / seconds / peak\n"),
        "a bare flops": (name_problems, "src/base/x.cc", "int flops = 0;\n"),
        "a test named LikeAType": (name_problems, "src/base/x_test.cc", "TEST(Text, SplitsWords) {\n"),
        "a flops in a name": (name_problems, "src/base/x.cc", "int total_flops = 0;\n"),
        "a type defined twice": (
            lambda path: twice_problems([ROOT / "include/mfu/result.h", path]),
            "src/base/x.h",
            "namespace mfu {\nstruct Error {\n",
        ),
        "a name that two sources hide": (
            lambda path: unity_problems([ROOT / "src/sinks/csv.cc", path]),
            "src/sinks/x.cc",
            "namespace {\nstd::string cell(std::string_view word) {\n",
        ),
        "a path of one machine": (machine_problems, "docs/x.md", "see /ro" + "ot/x\n"),
    }
    for name, (check, relative, text) in cases.items():
        yield f"tidy/finds {name}", None if fails(check, relative, text) else "it was not found"
