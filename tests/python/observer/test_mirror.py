"""The ctypes mirror of include/mfu/observer.h equals the header, and the whole package uses one import hook."""

import ctypes
import re
from pathlib import Path

from mfu._observer import binding, compiled

ROOT = Path(__file__).resolve().parents[3]
PLAIN = {
    "int": ctypes.c_int,
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "uint64_t": ctypes.c_uint64,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "int32_t": ctypes.c_int32,
    "char *": ctypes.c_char_p,
    "void": None,
}
# The mirror's names for the structures of the header.
NAMES = {
    "totals": binding.Totals,
    "row": binding.Row,
    "phase": binding.Phase,
    "thread": binding.Thread,
    "change": binding.Change,
    "argument": binding.Argument,
    "cost": binding.Cost,
    "graph_row": compiled._Rows,
}


def header():
    text = (ROOT / "include/mfu/observer.h").read_text()
    return re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", text))


def mirrored(words, structures):
    """For "const struct mfu_observer_row* rows": the ctypes type and the name."""
    kind, stars, name = re.fullmatch(r"((?:const |struct )*\w+)\s*(\**)\s*(\w*)", words.strip()).groups()
    kind = re.sub(r"const |struct ", "", kind)
    if kind == "char" and stars:
        return ctypes.c_char_p, name
    plain = structures[kind[len("mfu_observer_") :]] if kind.startswith("mfu_observer_") else PLAIN[kind]
    return (ctypes.POINTER(plain) if stars else plain), name


def fields(body):
    """(name, type) of each field; several fields may share one type in a declaration."""
    found = []
    for declaration in filter(None, (each.strip() for each in body.split(";"))):
        first, *more = declaration.split(",")
        kind, name = mirrored(first, NAMES)
        found += [(each.strip(), kind) for each in (name, *more)]
    return found


def test_each_structure_has_the_fields_of_the_header_in_their_order():
    text = header()
    found = dict(re.findall(r"struct mfu_observer_(\w+) \{(.*?)\};", text))
    assert set(found) == set(NAMES)
    for name, body in found.items():
        assert [(field[0], field[1]) for field in NAMES[name]._fields_] == fields(body), name


def argument(words):
    """The types of a function. A callback is recognised by its arguments."""
    callback = re.fullmatch(r"CALLBACK\[(.*)\]", words.strip())
    if callback:
        return (
            "callback",
            [mirrored(each, NAMES)[0] for each in callback.group(1).split(";") if each.strip() != "void"],
        )
    return mirrored(words, NAMES)[0]


def plain(kind):
    """The same for a type of the mirror."""
    if kind is ctypes.c_void_p:
        return ctypes.POINTER(compiled._Rows)
    return ("callback", list(kind._argtypes_)) if hasattr(kind, "_argtypes_") else kind


def test_each_function_has_the_types_of_the_header():
    text = re.sub(r"struct mfu_observer_\w+ \{.*?\};", "", header())
    text = re.sub(r"(?:void|int) \(\*\w+\)\(([^()]*)\)", lambda found: f"CALLBACK[{found[1].replace(',', ';')}]", text)
    for name, arguments in re.findall(r"typedef \w+ \(\*(\w+)\)\(([^()]*)\);", text):
        text = re.sub(rf"{name} (\w+)", "CALLBACK[" + arguments.replace(",", ";") + "]", text)
    declared = re.findall(r"((?:const )?\w+\s?\*?) ?mfu_observer_(\w+)\(([^()]*)\);", text)
    assert {name for _, name, _ in declared} >= set(binding.SIGNATURES)
    for result, name, arguments in declared:
        if name in binding.SIGNATURES:
            wanted = [argument(each) for each in ([] if arguments.strip() == "void" else arguments.split(","))]
            given = binding.SIGNATURES[name]
            assert (given[0], [plain(kind) for kind in given[1]]) == (mirrored(result, NAMES)[0], wanted), name


def test_the_numbers_of_the_header_are_the_mirrors():
    text = (ROOT / "include/mfu/observer.h").read_text()
    defined = {name: int(value) for name, value in re.findall(r"#define MFU_OBSERVER_(\w+) (\d+)", text)}
    assert (defined["ABI"], defined["THREAD_STATE"]) == (binding.ABI, binding.THREAD_STATE)


def test_one_file_of_the_package_hooks_into_imports():
    hooks = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "python").rglob("*.py"))
        if re.search(r"meta_path\.|path_hooks\.", path.read_text())
    ]
    assert hooks == ["python/mfu/_observer/imports.py"]
