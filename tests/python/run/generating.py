"""Programs that generate with transformers. Each has a class of its own, so that the report tells them apart."""

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GemmaConfig,
    GemmaForCausalLM,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

PROMPT, NEW, BATCH, HIDDEN, FFN, LAYERS, HEADS, SHARED, VOCAB, WINDOW = 10, 6, 2, 64, 128, 2, 4, 2, 101, 4
PACKED = (5, 9, 3, 7, 12)  # prompts of continuous batching

GATED = dict(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
             num_key_value_heads=SHARED, vocab_size=VOCAB, max_position_embeddings=256)
OPTIONS = dict(max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0)


def main():
    torch.manual_seed(0)
    ids = torch.randint(3, 100, (BATCH, PROMPT))
    llama, qwen = LlamaForCausalLM(LlamaConfig(**GATED)), Qwen2ForCausalLM(Qwen2Config(**GATED))
    gpt2 = GPT2LMHeadModel(
        GPT2Config(n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, vocab_size=VOCAB, n_positions=64, n_inner=FFN)
    )
    mistral = MistralForCausalLM(MistralConfig(**GATED, sliding_window=WINDOW))
    mixtral = MixtralForCausalLM(MixtralConfig(**GATED, num_local_experts=4, num_experts_per_tok=2))
    bart = BartForConditionalGeneration(
        BartConfig(
            d_model=HIDDEN,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=FFN,
            decoder_ffn_dim=FFN,
            vocab_size=VOCAB,
            max_position_embeddings=64,
            forced_eos_token_id=None,
        )
    )
    opt = OPTForCausalLM(
        OPTConfig(
            hidden_size=HIDDEN,
            ffn_dim=FFN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            vocab_size=VOCAB,
            max_position_embeddings=64,
            word_embed_proj_dim=HIDDEN,
        )
    )
    gemma, packed = GemmaForCausalLM(GemmaConfig(**GATED, head_dim=16)), Qwen3ForCausalLM(
        Qwen3Config(**GATED, head_dim=16)
    )
    # The same without fused attention: only its scores tell which tokens belong together.
    packed_eager = type("PackedEager", (Qwen3ForCausalLM,), {"__module__": Qwen3ForCausalLM.__module__})(
        Qwen3Config(**GATED, head_dim=16, attn_implementation="eager")
    )
    for model in (llama, qwen, gpt2, mistral, mixtral, bart, opt, gemma, packed, packed_eager):
        model.eval()
    llama.generate(ids, **OPTIONS)
    qwen.generate(ids, **{**OPTIONS, "do_sample": True, "cache_implementation": "static"})
    gpt2.generate(ids, **OPTIONS, num_beams=3)
    mistral.generate(ids, **OPTIONS)
    mixtral.generate(ids, **OPTIONS)
    bart.generate(ids, **OPTIONS, num_beams=1)
    opt.generate(ids, **OPTIONS, use_cache=False)
    gemma.generate(ids[:, :1], **OPTIONS)
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    for model in (packed, packed_eager):
        model.generate_batch(
            inputs=[list(range(3, 3 + length)) for length in PACKED],
            generation_config=GenerationConfig(max_new_tokens=NEW, do_sample=False, eos_token_id=-1, pad_token_id=0),
            continuous_batching_config=ContinuousBatchingConfig(max_batch_tokens=16, num_blocks=64),
        )


if __name__ == "__main__":
    main()
