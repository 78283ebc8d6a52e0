"""Makes a small config of any type from its defaults: few layers, few experts and a short vocabulary."""

LAYERS = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "depth",
    "num_encoder_layers",
    "num_decoder_layers",
    "num_blocks",
    "n_blocks",
    "num_attention_layers",
    "num_conv_layers",
    "num_transformer_layers",
    "decoder_num_layers",
)
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
KEPT = ("num_channels",)


def shrunk(value, name="", layers=2):
    """The same config, smaller. Its class may refuse it."""
    if isinstance(value, dict):
        counts = [
            (key, each) for key, each in value.items() if key in LAYERS and isinstance(each, int) and each > layers
        ]
        made = {key: shrunk(each, key, layers) for key, each in value.items()}
        if isinstance(value.get("vocab_size"), int) and value["vocab_size"] > 1000:
            made["vocab_size"] = 1000
            for key, each in value.items():
                if key.endswith(("token_id", "token_index")) and isinstance(each, int) and each >= 1000:
                    made[key] = each % 900 + 20
        for _, count in counts:
            for key, each in value.items():  # a list with one entry for each layer
                if isinstance(each, list) and len(each) == count and not key.endswith("token_id"):
                    made[key] = each[:layers]
        return made
    if isinstance(value, int) and not isinstance(value, bool):
        if name in LAYERS and value > layers:
            return layers
        if name in EXPERTS and value > 8:
            return 8
        if name in ("num_experts_per_tok", "moe_topk", "top_k_experts") and value > 4:
            return 4
    if isinstance(value, list) and name in (
        "depths",
        "num_blocks",
        "layers_per_block_list",
        "encoder_depths",
        "decoder_depths",
    ):
        return [min(each, 2) if isinstance(each, int) else each for each in value]
    return value
