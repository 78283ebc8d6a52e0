"""vLLM's own engine on a CPU: four prompts in batches that change, 8 new tokens each (Llama from a config)"""
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

import json
import os
import tempfile

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
}


def main(eager=True):
    from vllm import LLM, SamplingParams

    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/config.json", "w") as file:
            json.dump(CONFIG, file)
        engine = LLM(folder, load_format="dummy", skip_tokenizer_init=True, max_model_len=512, dtype="bfloat16",
                     enforce_eager=eager, enable_prefix_caching=False)
        engine.generate([{"prompt_token_ids": list(range(3, 3 + length))} for length in (5, 40, 17, 100)],
                        SamplingParams(max_tokens=8, min_tokens=8, ignore_eos=True, detokenize=False, temperature=0))


if __name__ == "__main__":
    main()
