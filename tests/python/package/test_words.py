"""Messages in Python name Python's options. Nobody who calls a function should read "give --peak"."""
import json
import re
import warnings

import pytest

import mfu

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
         "intermediate_size": 128}
OPTION = re.compile(r"(?<![\w-])--[a-z]")
REFUSED = {
    "an unknown device": lambda place: mfu.utilization(10**12, 1.0, device="Flux Capacitor"),
    "a device by several names": lambda place: mfu.peak("h100"),
    "no peak": lambda place: mfu.utilization(10**12, 1.0),
    "an encoder's length": lambda place: mfu.flops(LLAMA, encoder_seq=8),
    "a form of latent attention": lambda place: mfu.flops(LLAMA, mla="absorbed"),
    "layers that predict": lambda place: mfu.flops(LLAMA, mtp=True),
    "a picture's size": lambda place: mfu.flops(LLAMA, image_grid=[1, 8, 8]),
    "an unknown type": lambda place: mfu.flops({"model_type": "flux-capacitor", "hidden_size": 8}, python="no-python"),
    "a window that is none": lambda place: mfu.explain(place, window="x:y"),
    "an engine that is none": lambda place: mfu.explain(place, engine="flux"),
    "another Python": lambda place: mfu.flops(LLAMA, by_class=True, python="/no/such/python"),
}


@pytest.fixture
def place(tmp_path):
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 5, "args": {"device": 0}}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    return path


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_names_pythons_options(what, place):
    with pytest.raises(mfu.Error) as refused:
        REFUSED[what](place)
    assert not OPTION.search(str(refused.value)), str(refused.value)


def test_notes_name_pythons_options_and_have_codes(place):
    t5 = mfu.flops({"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4,
                    "vocab_size": 100, "tie_word_embeddings": False}, convention="all")
    told = mfu.explain(place)
    machine = mfu.machine()
    assert "encoder length: the same as the sequence; encoder_seq= sets it" in t5.assumptions
    assert [each.code for each in t5.assumption_codes] == ["head_counted_apart", "encoder_length_as_sequence"]
    unfit = {each["values"]["convention"]: each["values"]["why"]
             for each in t5.note_codes if each.code == "by_convention"}
    assert unfit["palm"] == "encoder_decoder" and "palm: not defined for an encoder-decoder" in t5.notes
    for sentences, codes in (
        (t5.assumptions, t5.assumption_codes),
        (t5.notes, t5.note_codes),
        (told.notes, told.note_codes),
        *((each.notes, each.note_codes) for each in machine.devices),
    ):
        assert len(sentences) == len(codes)
        assert not [each for each in sentences if OPTION.search(each.replace("mfu peak --measure", ""))]


def test_a_monitor_that_finds_no_peak_names_settings(tmp_path):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        monitor = mfu.Monitor(device="Flux Capacitor", model=LLAMA, output_dir=str(tmp_path))
        monitor.log_step(0, tokens=64, step_seconds=0.1)
        monitor.close()
    said = [*(str(each.message) for each in heard), *monitor.warnings]
    assert any("Flux Capacitor" in each for each in said), said
    assert not [each for each in said if OPTION.search(each)], said
