"""Sizes that every family's random config starts from."""


def heads_of(r):
    """Heads, kv heads, and a head width that half-rotary embeddings can split."""
    kv = r.choice([1, 2, 3])
    group = r.choice([1, 2, 4])
    dim = 4 * r.randint(1, 4)
    return kv * group, kv, dim


def base(r, head_dim=False, kv=True):
    heads, kv_heads, dim = heads_of(r)
    fields = {
        "hidden_size": heads * dim if not head_dim else heads * 2 * r.randint(1, 6),
        "num_hidden_layers": r.randint(1, 4),
        "num_attention_heads": heads,
        "intermediate_size": r.randint(5, 60),
        "vocab_size": r.randint(20, 90),
        "tie_word_embeddings": r.random() < 0.5,
        "pad_token_id": 0,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    if kv:
        fields["num_key_value_heads"] = kv_heads
    if head_dim:
        fields["head_dim"] = dim
    return fields
