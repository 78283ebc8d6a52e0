"""A plain training program: one small, randomly initialised transformers model, three steps. Knows nothing of mfu.

    python observed_program.py llama
"""

import sys

import torch
import transformers

BATCH, SEQUENCE, VOCAB, STEPS = 3, 20, 96, 3
COMMON = {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": VOCAB}
ATTENTION = {**COMMON, "intermediate_size": 112, "num_attention_heads": 4}


def text():
    return {
        "input_ids": torch.randint(3, VOCAB, (BATCH, SEQUENCE)),
        "labels": torch.randint(3, VOCAB, (BATCH, SEQUENCE)),
    }


def make(name):
    """The model, and a function that makes a batch for it."""
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**ATTENTION, num_key_value_heads=2)), text
    if name == "llama_eager":  # attention as plain matmuls
        return (
            transformers.LlamaForCausalLM(
                transformers.LlamaConfig(**ATTENTION, num_key_value_heads=2, attn_implementation="eager")
            ),
            text,
        )
    if name == "qwen3_moe":
        config = transformers.Qwen3MoeConfig(
            **ATTENTION,
            num_key_value_heads=2,
            head_dim=16,
            moe_intermediate_size=48,
            num_experts=6,
            num_experts_per_tok=2,
        )
        return transformers.Qwen3MoeForCausalLM(config), text
    if name == "bert":
        return transformers.BertForMaskedLM(transformers.BertConfig(**ATTENTION)), text
    if name == "vit":
        config = transformers.ViTConfig(
            hidden_size=64,
            intermediate_size=112,
            num_hidden_layers=3,
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
            num_labels=10,
        )
        return transformers.ViTForImageClassification(config), lambda: {
            "pixel_values": torch.randn(BATCH, 3, 32, 32),
            "labels": torch.randint(0, 10, (BATCH,)),
        }
    if name == "whisper":
        config = transformers.WhisperConfig(
            d_model=64,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=112,
            decoder_ffn_dim=112,
            vocab_size=VOCAB,
            num_mel_bins=16,
            max_source_positions=50,
            max_target_positions=40,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            suppress_tokens=[],
            begin_suppress_tokens=[],
        )
        return transformers.WhisperForConditionalGeneration(config), lambda: {
            "input_features": torch.randn(BATCH, 16, 100),
            "labels": text()["labels"],
        }
    if name == "mamba":
        return transformers.MambaForCausalLM(transformers.MambaConfig(**COMMON, state_size=8)), text
    raise SystemExit(f"no model {name}")


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, batch = make(sys.argv[1])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        loss = model(**batch()).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"{loss.item():.9f}")


if __name__ == "__main__":
    main()
