"""vLLM's own engine on a CPU, compiled as it is by default: the prompts of vllm_generate.py"""
NEEDS = ["vllm"]
ALONE = False
WHY = "the engine runs in processes of its own, which FlopCounterMode does not reach"
EXPECT = {
    "steps": 0,
    # A token needs 2 FLOPs for each of 196,608 weights and of the head's 65,536, and 1,024 for each pair that is
    # attended. What the engine runs before it serves has no attention, so it is neither prefill nor decode.
    "flop_of_phases": {
        "prefill": 2 * 196608 * 162 + 2 * 65536 * 4 + 1024 * (15 + 820 + 153 + 5050),
        "decode": 2 * (196608 + 65536) * 28 + 1024 * (7 * 162 + 4 * 28),
    },
}

from vllm_generate import main

if __name__ == "__main__":
    main(eager=False)
