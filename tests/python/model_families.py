"""Random small configs of every family, as fields of the Hugging Face config class."""

import random

from model_encoders import albert, bart, bert, clip_vision_model, distilbert, modernbert, siglip_vision_model, t5, vit, whisper
from model_sizes import base as _base, heads_of as _heads

TEXT_ONLY = "AutoModelForCausalLM"


def llama(r):
    f = _base(r, head_dim=r.random() < 0.5)
    f |= {"attention_bias": r.random() < 0.5, "mlp_bias": r.random() < 0.5}
    return f


def mistral(r):
    return _base(r, head_dim=r.random() < 0.5) | {"sliding_window": r.choice([None, 3, 7, 4096])}


def ministral(r):
    return _base(r, head_dim=True) | {"sliding_window": r.choice([3, 7])}


def ministral3(r):
    return _base(r, head_dim=True) | {"sliding_window": r.choice([None, 3, 7])}


def cwm(r):
    return _base(r, head_dim=True) | {"sliding_window": r.choice([3, 7]), "mlp_bias": r.random() < 0.5}


def qwen2(r):
    f = _base(r)
    if r.random() < 0.5:
        f |= {"use_sliding_window": True, "sliding_window": r.choice([3, 5]), "max_window_layers": r.randint(0, 3)}
    return f


def qwen3(r):
    return _base(r, head_dim=True) | {"attention_bias": r.random() < 0.5}


def smollm3(r):
    return _base(r) | {"attention_bias": r.random() < 0.5, "mlp_bias": r.random() < 0.5}


def seed_oss(r):
    return _base(r, head_dim=True) | {"attention_bias": r.random() < 0.5, "attention_out_bias": r.random() < 0.5}


def granite(r):
    return _base(r) | {"attention_bias": r.random() < 0.5, "mlp_bias": r.random() < 0.5}


def helium(r):
    f = _base(r)
    return f | {"head_dim": f["hidden_size"] // f["num_attention_heads"], "attention_bias": r.random() < 0.5, "mlp_bias": r.random() < 0.5}


def arcee(r):
    return _base(r) | {"attention_bias": r.random() < 0.5, "mlp_bias": r.random() < 0.5}


def ernie4_5(r):
    return _base(r, head_dim=True) | {"use_bias": r.random() < 0.5}


def hunyuan_v1_dense(r):
    return _base(r, head_dim=True) | {"attention_bias": r.random() < 0.5}


def exaone4(r):
    return _base(r) | {"sliding_window": r.choice([3, 9]), "sliding_window_pattern": r.choice([2, 4])}


def apertus(r):
    return _base(r) | {"attention_bias": r.random() < 0.5}


def olmo(r):
    return _base(r) | {"attention_bias": r.random() < 0.5}


def olmo3(r):
    return _base(r) | {"attention_bias": r.random() < 0.5, "sliding_window": r.choice([3, 9])}


def phi3(r):
    return _base(r) | {"sliding_window": r.choice([None, 5])}


def glm(r):
    return _base(r, head_dim=True) | {"attention_bias": r.random() < 0.5}


def cohere(r):
    return _base(r) | {"attention_bias": r.random() < 0.5, "use_qk_norm": r.random() < 0.5}


def cohere2(r):
    return _base(r) | {"attention_bias": r.random() < 0.5, "sliding_window": 5}


def stablelm(r):
    f = _base(r)
    f |= {k: r.random() < 0.5 for k in ("use_qkv_bias", "qk_layernorm", "use_parallel_residual")}
    f["partial_rotary_factor"] = 0.5
    return f


def starcoder2(r):
    return _base(r) | {"use_bias": r.random() < 0.5, "sliding_window": r.choice([None, 5])}


def nemotron(r):
    return _base(r) | {"attention_bias": r.random() < 0.5, "mlp_bias": r.random() < 0.5}


def phi(r):
    return _base(r) | {"qk_layernorm": r.random() < 0.5, "tie_word_embeddings": False}


def persimmon(r):
    return _base(r, kv=False) | {"qk_layernorm": r.random() < 0.5}


def gemma(r):
    return _base(r, head_dim=True) | {"attention_bias": r.random() < 0.5}


def gemma2(r):
    return _base(r, head_dim=True) | {"sliding_window": r.choice([3, 8])}


def gemma4_text(r):
    f = _base(r, head_dim=True)
    f["num_hidden_layers"] = r.randint(2, 7)
    f |= {"sliding_window": r.choice([3, 8]), "global_head_dim": 4 * r.randint(1, 4), "hidden_size_per_layer_input": r.choice([0, 6]),
          "vocab_size_per_layer_input": f["vocab_size"], "attention_k_eq_v": r.random() < 0.5, "num_kv_shared_layers": 0, "use_double_wide_mlp": r.random() < 0.5}
    if f["num_hidden_layers"] == 7:
        f["num_kv_shared_layers"] = 1
    if f["attention_k_eq_v"]:
        f["num_global_key_value_heads"] = 1
    if r.random() < 0.5:
        f |= {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 7}
    return f


def gpt2(r):
    heads = r.choice([1, 2, 3])
    return {
        "n_embd": heads * 2 * r.randint(2, 6), "n_layer": r.randint(1, 3), "n_head": heads,
        "n_inner": r.choice([None, 17]), "vocab_size": r.randint(20, 60), "n_positions": 64,
        "tie_word_embeddings": r.random() < 0.5, "bos_token_id": 0, "eos_token_id": 0,
    }


def gpt_bigcode(r):
    return gpt2(r) | {"multi_query": r.random() < 0.5}


def gptj(r):
    f = gpt2(r)
    f |= {"rotary_dim": 4, "tie_word_embeddings": False}
    return f


def codegen(r):
    f = gpt2(r)
    f["n_head"] = 4
    f["n_embd"] = 4 * 2 * r.randint(2, 5)
    return f | {"rotary_dim": 4, "tie_word_embeddings": False}


def gpt_neo(r):
    heads = r.choice([1, 2, 3])
    layers = 2 * r.randint(1, 2)
    return {
        "hidden_size": heads * 2 * r.randint(2, 6), "num_layers": layers, "num_heads": heads,
        "intermediate_size": r.choice([None, 17]), "vocab_size": r.randint(20, 60),
        "max_position_embeddings": 64, "attention_types": [[["global", "local"], layers // 2]],
        "window_size": 4, "bos_token_id": 0, "eos_token_id": 0,
    }


def gpt_neox(r):
    return _base(r, kv=False) | {"attention_bias": r.random() < 0.5, "use_parallel_residual": r.random() < 0.5, "rotary_pct": 1.0}


def opt(r):
    f = _base(r, kv=False)
    f["ffn_dim"] = f.pop("intermediate_size")
    f |= {"max_position_embeddings": 64, "enable_bias": r.random() < 0.5, "do_layer_norm_before": r.random() < 0.7,
          "word_embed_proj_dim": r.choice([f["hidden_size"], 6])}
    return f


def bloom(r):
    heads = r.choice([1, 2, 4])
    return {"hidden_size": heads * r.randint(2, 8), "n_layer": r.randint(1, 3), "n_head": heads,
            "vocab_size": r.randint(20, 60), "tie_word_embeddings": r.random() < 0.5}


def mpt(r):
    heads = r.choice([1, 2, 4])
    return {"d_model": heads * r.randint(2, 8), "n_layers": r.randint(1, 3), "n_heads": heads,
            "expansion_ratio": r.choice([2, 4]), "vocab_size": r.randint(20, 60), "max_seq_len": 64,
            "tie_word_embeddings": r.random() < 0.5}


def falcon(r):
    heads = r.choice([2, 4])
    f = {"hidden_size": heads * 2 * r.randint(2, 6), "num_hidden_layers": r.randint(1, 3), "num_attention_heads": heads,
         "vocab_size": r.randint(20, 60), "bias": r.random() < 0.5, "multi_query": r.random() < 0.5,
         "parallel_attn": r.random() < 0.5, "tie_word_embeddings": r.random() < 0.5, "bos_token_id": 0, "eos_token_id": 0}
    if r.random() < 0.5:
        f |= {"new_decoder_architecture": True, "parallel_attn": True, "num_kv_heads": r.choice([1, 2]), "num_ln_in_parallel_attn": r.choice([1, 2])}
    return f


def _experts(r, f, total="num_local_experts", active="num_experts_per_tok", width=None):
    f[total] = r.randint(2, 6)
    f[active] = r.randint(1, f[total])
    if width:
        f[width] = r.randint(3, 20)
    return f


def mixtral(r):
    return _experts(r, _base(r)) | {"sliding_window": r.choice([None, 5])}


def qwen2_moe(r):
    f = _experts(r, _base(r), "num_experts", width="moe_intermediate_size")
    return f | {"shared_expert_intermediate_size": r.randint(3, 20), "decoder_sparse_step": r.choice([1, 2]), "mlp_only_layers": r.choice([[], [0]])}


def qwen3_moe(r):
    f = _experts(r, _base(r, head_dim=True), "num_experts", width="moe_intermediate_size")
    return f | {"decoder_sparse_step": r.choice([1, 2]), "mlp_only_layers": r.choice([[], [0]])}


def olmoe(r):
    return _experts(r, _base(r), "num_experts")


def granitemoe(r):
    return _experts(r, _base(r))


def granitemoeshared(r):
    return _experts(r, _base(r)) | {"shared_intermediate_size": r.randint(3, 20)}


def phimoe(r):
    f = _experts(r, _base(r)) | {"lm_head_bias": r.random() < 0.5, "attention_bias": r.random() < 0.5}
    f["num_experts_per_tok"] = 2  # the sparse mixer of this class always takes two experts
    if f["tie_word_embeddings"]:
        f["lm_head_bias"] = False
    return f


def dbrx(r):
    heads = r.choice([2, 4])
    h = heads * 2 * r.randint(2, 6)
    experts = r.randint(2, 6)
    return {"d_model": h, "n_heads": heads, "n_layers": r.randint(1, 3), "vocab_size": r.randint(20, 60), "max_seq_len": 64,
            "attn_config": {"kv_n_heads": r.choice([1, 2]), "clip_qkv": 8, "rope_theta": 10000.0},
            "ffn_config": {"ffn_hidden_size": r.randint(3, 20), "hidden_size": h, "moe_num_experts": experts, "moe_top_k": r.randint(1, experts)}}


def gpt_oss(r):
    f = _experts(r, _base(r, head_dim=True))
    f["intermediate_size"] = r.randint(3, 20)
    return f | {"sliding_window": r.choice([3, 9]), "attention_bias": r.random() < 0.5}


def glm4_moe(r):
    f = _experts(r, _base(r, head_dim=True), "n_routed_experts", width="moe_intermediate_size")
    return f | {"n_shared_experts": r.randint(1, 2), "first_k_dense_replace": r.randint(0, 2), "n_group": 1, "topk_group": 1,
                "attention_bias": r.random() < 0.5, "use_qk_norm": r.random() < 0.5}


def dots1(r):
    f = _experts(r, _base(r), "n_routed_experts", width="moe_intermediate_size")
    return f | {"n_shared_experts": r.randint(1, 2), "first_k_dense_replace": r.randint(0, 2), "n_group": 1, "topk_group": 1, "max_window_layers": 99}


def minimax_m2(r):
    f = _experts(r, _base(r, head_dim=True))
    f["intermediate_size"] = r.randint(3, 20)
    return f


def ernie4_5_moe(r):
    f = _experts(r, _base(r), "moe_num_experts", "moe_k", "moe_intermediate_size")
    return f | {"moe_num_shared_experts": r.randint(1, 2), "moe_layer_start_index": r.randint(0, 2), "use_bias": r.random() < 0.5}


def llama4_text(r):
    f = _experts(r, _base(r, head_dim=True))
    f["intermediate_size"] = r.randint(3, 20)
    return f | {"intermediate_size_mlp": r.randint(3, 20), "interleave_moe_layer_step": r.choice([1, 2]), "attention_chunk_size": r.choice([4, 8192]),
                "attention_bias": r.random() < 0.5}


def _mla(r, f):
    return f | {"q_lora_rank": r.choice([None, 5, 8]), "kv_lora_rank": 2 * r.randint(2, 5), "qk_nope_head_dim": 2 * r.randint(2, 5),
                "qk_rope_head_dim": 4, "v_head_dim": 2 * r.randint(2, 5), "num_key_value_heads": f["num_attention_heads"]}


def deepseek_v3(r):
    f = _experts(r, _base(r, kv=False), "n_routed_experts", width="moe_intermediate_size")
    f["n_routed_experts"] = max(2, f["n_routed_experts"])
    f["hidden_size"] = r.choice([f["hidden_size"], 2 * r.randint(4, 20)])  # not a multiple of the heads (GLM-4.7-Flash)
    return _mla(r, f) | {"n_shared_experts": r.randint(1, 2), "first_k_dense_replace": r.randint(0, 2), "n_group": 1, "topk_group": 1,
                         "attention_bias": r.random() < 0.5}


def deepseek_v2(r):
    f = deepseek_v3(r)
    return f | {"hidden_size": 4 * f["num_attention_heads"]}  # this class wants a multiple of the heads


def _with_q_rank(f):
    f["q_lora_rank"] = f["q_lora_rank"] or 6
    return f


def glm4_moe_lite(r):
    f = _with_q_rank(deepseek_v3(r))
    f.pop("first_k_dense_replace")
    return f


def glm_moe_dsa(r):
    f = _with_q_rank(deepseek_v3(r))
    return f | {"index_n_heads": r.randint(1, 3), "index_head_dim": 8, "index_topk": 6}


def mamba(r):
    f = {"hidden_size": r.randint(4, 30), "num_hidden_layers": r.randint(1, 3), "state_size": r.randint(2, 9),
         "vocab_size": r.randint(20, 60), "expand": r.choice([1, 2, 3]), "conv_kernel": r.choice([2, 4]),
         "use_bias": r.random() < 0.5, "use_conv_bias": r.random() < 0.5,
         "time_step_rank": r.choice(["auto", 3]), "tie_word_embeddings": r.random() < 0.5}
    return f if r.random() < 0.5 else f | {"intermediate_size": r.randint(4, 60)}


def mamba2(r):
    heads, dim = 2 * r.randint(1, 3), r.randint(2, 6)
    return {"hidden_size": heads * dim // 2 if (heads * dim) % 2 == 0 else heads * dim, "expand": 2, "num_heads": heads, "head_dim": dim, "num_hidden_layers": r.randint(1, 3),
            "state_size": r.randint(2, 9), "n_groups": r.choice([1, 2]), "vocab_size": r.randint(20, 60), "conv_kernel": 4, "chunk_size": r.choice([4, 8]),
            "use_bias": r.random() < 0.5, "use_conv_bias": r.random() < 0.5, "tie_word_embeddings": r.random() < 0.5}


def rwkv(r):
    h = 2 * r.randint(3, 12)
    return {"hidden_size": h, "attention_hidden_size": h, "num_hidden_layers": r.randint(2, 3), "intermediate_size": r.choice([None, 30]),
            "vocab_size": r.randint(20, 60), "context_length": 64, "tie_word_embeddings": r.random() < 0.5}


def nemotron_h(r):
    heads = 2 * r.randint(1, 3)
    f = {"hidden_size": 4 * r.randint(2, 8), "hybrid_override_pattern": "*" + "".join(r.choice("M*-") for _ in range(r.randint(2, 5))), "num_attention_heads": 4,
         "num_key_value_heads": r.choice([1, 2]), "head_dim": 6, "intermediate_size": r.randint(5, 30), "vocab_size": r.randint(20, 60),
         "mamba_num_heads": heads, "mamba_head_dim": r.randint(2, 6), "ssm_state_size": r.randint(2, 9), "n_groups": r.choice([1, 2]), "chunk_size": r.choice([4, 8]),
         "attention_bias": r.random() < 0.5, "mlp_bias": r.random() < 0.5, "use_bias": r.random() < 0.5, "tie_word_embeddings": False}
    if r.random() < 0.5:
        f["hybrid_override_pattern"] += "E"
        f |= {"n_routed_experts": 4, "num_experts_per_tok": r.randint(1, 4), "moe_intermediate_size": 7, "moe_shared_expert_intermediate_size": 9,
              "n_group": 1, "topk_group": 1, "moe_latent_size": r.choice([None, 5]), "mlp_bias": False}
    return f


def _delta(r, f):
    keys = r.choice([1, 2])
    f["num_hidden_layers"] = r.randint(4, 6)
    return f | {"linear_num_key_heads": keys, "linear_num_value_heads": keys * r.choice([1, 2]), "linear_key_head_dim": r.randint(3, 8),
                "linear_value_head_dim": r.randint(3, 8), "linear_conv_kernel_dim": r.choice([3, 4]), "partial_rotary_factor": 0.5}


def qwen3_next(r):
    f = _delta(r, _experts(r, _base(r, head_dim=True), "num_experts", width="moe_intermediate_size"))
    return f | {"shared_expert_intermediate_size": r.randint(3, 20), "decoder_sparse_step": r.choice([1, 2])}


def qwen3_5_text(r):
    return _delta(r, _base(r, head_dim=True))


def qwen3_5_moe_text(r):
    f = _delta(r, _experts(r, _base(r, head_dim=True), "num_experts", width="moe_intermediate_size"))
    return f | {"shared_expert_intermediate_size": r.randint(3, 20)}


def lfm2(r):
    f = _base(r)
    return f | {"block_ff_dim": r.randint(20, 60), "block_multiple_of": r.choice([1, 8]), "block_auto_adjust_ff_dim": r.random() < 0.5,
                "full_attn_idxs": sorted(r.sample(range(f["num_hidden_layers"]), r.randint(1, f["num_hidden_layers"]))), "conv_bias": r.random() < 0.5,
                "conv_L_cache": r.choice([3, 4]), "tie_embedding": f.pop("tie_word_embeddings")}


def lfm2_moe(r):
    f = _experts(r, _base(r), "num_experts", width="moe_intermediate_size")
    layers = [r.choice(["conv", "full_attention"]) for _ in range(f["num_hidden_layers"])]
    # without an attention layer the class cannot tell the length of its cache
    layers[r.randrange(len(layers))] = "full_attention"
    return f | {"layer_types": layers, "num_dense_layers": r.randint(0, 2),
                "use_expert_bias": r.random() < 0.5}


def jamba(r):
    f = _experts(r, _base(r), "num_experts")
    f["num_hidden_layers"] = r.randint(2, 5)
    return f | {"attn_layer_period": 2, "attn_layer_offset": r.randint(0, 1), "expert_layer_period": 2, "expert_layer_offset": r.randint(0, 1),
                "mamba_d_state": r.randint(2, 9), "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": r.choice(["auto", 3]), "use_mamba_kernels": False}


def bamba(r):
    f = _base(r)
    f["hidden_size"] = 24
    f["num_attention_heads"], f["num_key_value_heads"] = 4, 2
    return f | {"num_hidden_layers": r.randint(2, 4), "attn_layer_indices": r.choice([[0], [1], [0, 1]]), "mamba_n_heads": r.choice([2, 4]), "mamba_d_state": r.randint(2, 9), "mamba_expand": 2,
                "mamba_n_groups": 1, "mamba_chunk_size": 8, "mamba_proj_bias": r.random() < 0.5}


def granitemoehybrid(r):
    f = bamba(r)
    f.pop("attn_layer_indices")
    layers = f["num_hidden_layers"]
    f |= {"layer_types": ["attention"] + [r.choice(["mamba", "attention"]) for _ in range(layers - 1)], "shared_intermediate_size": r.randint(3, 20)}
    return _experts(r, f) if r.random() < 0.5 else f | {"num_local_experts": 0, "num_experts_per_tok": 0}


def falcon_h1(r):
    f = bamba(r)
    f.pop("attn_layer_indices")
    return f | {"mamba_d_ssm": f["mamba_n_heads"] * 6, "mamba_d_head": 6, "mamba_rms_norm": r.random() < 0.5, "projectors_bias": r.random() < 0.5,
                "mlp_bias": r.random() < 0.5, "attention_bias": r.random() < 0.5}


def zamba2(r):
    heads, mamba_heads = 2 * r.randint(1, 2), r.choice([2, 4])
    layers = r.randint(3, 6)
    types = ["linear_attention", "hybrid"] + [r.choice(["linear_attention", "hybrid"]) for _ in range(layers - 2)]
    return {"hidden_size": 8 * r.randint(1, 4), "num_hidden_layers": layers, "layers_block_type": types, "num_attention_heads": heads, "num_key_value_heads": heads,
            "intermediate_size": r.randint(5, 30), "vocab_size": r.randint(20, 60), "mamba_d_state": r.randint(2, 9), "mamba_expand": 2, "n_mamba_heads": mamba_heads,
            "mamba_ngroups": r.choice([1, 2]), "chunk_size": r.choice([4, 8]), "num_mem_blocks": r.choice([1, 2]), "adapter_rank": r.randint(2, 5),
            "use_shared_attention_adapter": r.random() < 0.5, "add_bias_linear": r.random() < 0.5, "use_mem_rope": r.random() < 0.5,
            # If it is false, transformers does not share a block either.
            "tie_word_embeddings": True, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}


CAUSAL = {f.__name__: f for f in (
    llama, mistral, ministral, ministral3, cwm, qwen2, qwen3, smollm3, seed_oss, granite, helium, arcee, ernie4_5, hunyuan_v1_dense, exaone4, apertus, olmo, olmo3, phi3, glm,
    cohere, cohere2, stablelm, starcoder2, nemotron, phi, persimmon, gemma, gemma2, gemma4_text, gpt2, gpt_bigcode, gptj, codegen, gpt_neo, gpt_neox, opt, bloom, mpt, falcon,
    mixtral, qwen2_moe, qwen3_moe, olmoe, granitemoe, granitemoeshared, phimoe, dbrx, gpt_oss, glm4_moe, dots1, minimax_m2, ernie4_5_moe, llama4_text,
    deepseek_v2, deepseek_v3, glm4_moe_lite, glm_moe_dsa, mamba, mamba2, rwkv, nemotron_h, qwen3_next, qwen3_5_text, qwen3_5_moe_text, lfm2, lfm2_moe, jamba, bamba, granitemoehybrid,
    falcon_h1, zamba2)}
CAUSAL |= {"olmo2": olmo, "glm4": glm, "gemma3_text": gemma2, "falcon_mamba": mamba, "flex_olmo": olmoe, "deepseek_v32": glm_moe_dsa}
ENCODERS = {"bert": bert, "roberta": bert, "xlm-roberta": bert, "camembert": bert, "distilbert": distilbert, "modernbert": modernbert, "albert": albert}
SEQUENCE_TO_SEQUENCE = {"t5": t5, "mt5": t5, "bart": bart, "mbart": bart}
VISION = {"vit": vit, "clip_vision_model": clip_vision_model, "siglip_vision_model": siglip_vision_model}


def generate(kind, seed):
    table = CAUSAL | ENCODERS | VISION | SEQUENCE_TO_SEQUENCE | {"whisper": whisper}
    return table[kind](random.Random(f"{kind}/{seed}"))
