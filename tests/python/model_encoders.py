"""Random small configs of encoders, encoder-decoders and vision towers."""


from model_sizes import base as _base


def bert(r):
    f = _base(r, kv=False)
    f.pop("tie_word_embeddings")
    return f | {"max_position_embeddings": 64, "type_vocab_size": r.choice([1, 2])}


def distilbert(r):
    heads = r.choice([1, 2, 3])
    return {
        "dim": heads * 2 * r.randint(2, 6),
        "n_heads": heads,
        "n_layers": r.randint(1, 3),
        "hidden_dim": r.randint(5, 30),
        "vocab_size": r.randint(20, 60),
        "max_position_embeddings": 64,
    }


def modernbert(r):
    f = _base(r, kv=False)
    f.pop("tie_word_embeddings")
    return f | {
        "global_attn_every_n_layers": r.choice([2, 3]),
        "local_attention": r.choice([4, 8]),
        "cls_token_id": 0,
        "sep_token_id": 0,
        "attention_bias": r.random() < 0.5,
        "mlp_bias": r.random() < 0.5,
        "norm_bias": r.random() < 0.5,
    }


def t5(r):
    heads = r.choice([1, 2, 3])
    return {
        "d_model": r.randint(6, 30),
        "d_kv": r.randint(3, 8),
        "num_heads": heads,
        "d_ff": r.randint(5, 30),
        "num_layers": r.randint(1, 3),
        "num_decoder_layers": r.randint(1, 3),
        "vocab_size": r.randint(20, 60),
        "feed_forward_proj": r.choice(["relu", "gated-gelu"]),
        "tie_word_embeddings": r.random() < 0.5,
        "decoder_start_token_id": 0,
    }


def whisper(r):
    heads = r.choice([1, 2])
    return {
        "d_model": heads * 2 * r.randint(2, 6),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_layers": r.randint(1, 3),
        "decoder_layers": r.randint(1, 3),
        "encoder_ffn_dim": r.randint(5, 30),
        "decoder_ffn_dim": r.randint(5, 30),
        "vocab_size": r.randint(20, 60),
        "num_mel_bins": r.choice([8, 10]),
        "max_source_positions": 12,
        "max_target_positions": 40,
        "pad_token_id": 0,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "decoder_start_token_id": 0,
    }


def bart(r):
    encoder, decoder, dim = r.choice([1, 2]), r.choice([1, 2]), 4 * r.randint(1, 5)
    return {
        "d_model": 2 * dim,
        "encoder_attention_heads": encoder,
        "decoder_attention_heads": decoder,
        "encoder_layers": r.randint(1, 3),
        "decoder_layers": r.randint(1, 3),
        "encoder_ffn_dim": r.randint(5, 30),
        "decoder_ffn_dim": r.randint(5, 30),
        "vocab_size": r.randint(20, 60),
        "max_position_embeddings": 40,
        "pad_token_id": 0,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "decoder_start_token_id": 0,
        "forced_eos_token_id": 0,
    }


def albert(r):
    f = _base(r, kv=False)
    f.pop("tie_word_embeddings")
    layers = r.randint(1, 5)
    return f | {
        "embedding_size": r.randint(4, 12),
        "num_hidden_layers": layers,
        "num_hidden_groups": r.randint(1, layers),
        "inner_group_num": r.choice([1, 2]),
        "max_position_embeddings": 64,
        "type_vocab_size": r.choice([1, 2]),
    }


def vit(r):
    heads = r.choice([1, 2, 3])
    return {
        "hidden_size": heads * r.randint(2, 8),
        "num_attention_heads": heads,
        "num_hidden_layers": r.randint(1, 3),
        "intermediate_size": r.randint(5, 30),
        "patch_size": 4,
        "image_size": 4 * r.randint(2, 5),
        "qkv_bias": r.random() < 0.5,
    }


def clip_vision_model(r):
    f = vit(r)
    f.pop("qkv_bias")
    return f


siglip_vision_model = clip_vision_model
