"""Programs that generate with transformers. Each case has a model class of its own, so that a report tells them apart.

    python generation_cases.py NAME…            runs the cases (under mfu run)
    python generation_cases.py --oracle NAME…   runs them with FlopCounterMode around each pass, and prints JSON
"""

import functools
import json
import sys

import torch
import transformers as hf
from torch.utils.flop_counter import FlopCounterMode

PROMPT, NEW, BATCH, HIDDEN, FFN, LAYERS, HEADS, SHARED, VOCAB, WINDOW = 10, 6, 2, 64, 128, 2, 4, 2, 101, 4
OPTIONS = dict(max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0)
GATED = dict(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
             num_key_value_heads=SHARED,
             vocab_size=VOCAB, max_position_embeddings=256)
CASES, ALIVE = {}, []
# FlopCounterMode has no formula for a grouped product, so under the oracle the experts run one after the other.
COUNTED_ONE_BY_ONE = "--oracle" in sys.argv


def case(function):
    CASES[function.__name__] = function
    return function


def made(name, kind, config, attention="eager", **more):
    """A model whose class has the case's name."""
    named = type(name, (kind,), {"__module__": kind.__module__})
    config._attn_implementation = attention
    if COUNTED_ONE_BY_ONE:
        config._experts_implementation = "eager"
    torch.manual_seed(0)
    ALIVE.append(named(config, **more).eval())
    return ALIVE[-1]


def ids(length=PROMPT, batch=BATCH):
    torch.manual_seed(1)
    return torch.randint(3, 100, (batch, length))


def llama(name, attention="eager", **more):
    return made(name, hf.LlamaForCausalLM, hf.LlamaConfig(**{**GATED, **more}), attention)


@case
def greedy():
    llama("greedy").generate(ids(), **OPTIONS)


@case
def fused():
    llama("fused", "sdpa").generate(ids(), **OPTIONS)


@case
def sampled():
    llama("sampled").generate(ids(), **{**OPTIONS, "do_sample": True, "top_k": 5})


@case
def several():
    llama("several").generate(ids(), **{**OPTIONS, "do_sample": True}, num_return_sequences=3)


@case
def left_padded():
    mask = torch.ones(BATCH, PROMPT, dtype=torch.long)
    mask[0, :4] = 0
    llama("left_padded").generate(ids(), attention_mask=mask, **OPTIONS)


@case
def beams():
    config = hf.GPT2Config(n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, vocab_size=VOCAB, n_positions=64, n_inner=FFN)
    made("beams", hf.GPT2LMHeadModel, config).generate(ids(), **OPTIONS, num_beams=3)


@case
def beams_of_llama():
    llama("beams_of_llama", "sdpa").generate(ids(), **OPTIONS, num_beams=3)


@case
def experts():
    config = hf.MixtralConfig(**GATED, num_local_experts=4, num_experts_per_tok=2)
    made("experts", hf.MixtralForCausalLM, config).generate(ids(), **OPTIONS)


@case
def many_experts():
    config = hf.Qwen3MoeConfig(**GATED, head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
                               decoder_sparse_step=1)
    made("many_experts", hf.Qwen3MoeForCausalLM, config).generate(ids(), **OPTIONS)


@case
def latent():
    config = hf.DeepseekV3Config(**{**GATED, "num_key_value_heads": HEADS}, moe_intermediate_size=32,
                                 n_routed_experts=4, num_experts_per_tok=2, n_group=1,
                                 topk_group=1, kv_lora_rank=16, q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8,
                                 v_head_dim=16,
                                 first_k_dense_replace=1)
    made("latent", hf.DeepseekV3ForCausalLM, config).generate(ids(), **OPTIONS)


@case
def one_key_head():
    config = hf.FalconConfig(hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, vocab_size=VOCAB,
                             multi_query=True,
                             new_decoder_architecture=False)
    made("one_key_head", hf.FalconForCausalLM, config).generate(ids(), **OPTIONS)


@case
def tied():
    config = hf.Gemma2Config(**GATED, head_dim=16, sliding_window=WINDOW, tie_word_embeddings=True)
    made("tied", hf.Gemma2ForCausalLM, config).generate(ids(), **OPTIONS)


@case
def window():
    made("window", hf.MistralForCausalLM, hf.MistralConfig(**GATED, sliding_window=WINDOW)).generate(ids(), **OPTIONS)


@case
def static():
    llama("static").generate(ids(), **OPTIONS, cache_implementation="static")


@case
def static_fused():
    llama("static_fused", "sdpa").generate(ids(), **OPTIONS, cache_implementation="static")


@case
def no_cache():
    config = hf.OPTConfig(hidden_size=HIDDEN, ffn_dim=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                          vocab_size=VOCAB,
                          max_position_embeddings=64, word_embed_proj_dim=HIDDEN)
    made("no_cache", hf.OPTForCausalLM, config).generate(ids(), **OPTIONS, use_cache=False)


@case
def one_token_prompt():
    llama("one_token_prompt").generate(ids(1), **OPTIONS)


@case
def t5():
    config = hf.T5Config(d_model=HIDDEN, d_kv=16, d_ff=FFN, num_layers=LAYERS, num_heads=HEADS, vocab_size=VOCAB,
                         decoder_start_token_id=0)
    made("t5", hf.T5ForConditionalGeneration, config).generate(ids(), **OPTIONS)


@case
def bart():
    config = hf.BartConfig(d_model=HIDDEN, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
                           decoder_attention_heads=HEADS,
                           encoder_ffn_dim=FFN, decoder_ffn_dim=FFN, vocab_size=VOCAB, max_position_embeddings=64,
                           forced_eos_token_id=None)
    made("bart", hf.BartForConditionalGeneration, config).generate(ids(), **OPTIONS, num_beams=1)


@case
def bart_beams():
    config = hf.BartConfig(d_model=HIDDEN, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
                           decoder_attention_heads=HEADS,
                           encoder_ffn_dim=FFN, decoder_ffn_dim=FFN, vocab_size=VOCAB, max_position_embeddings=64,
                           forced_eos_token_id=None)
    made("bart_beams", hf.BartForConditionalGeneration, config, "sdpa").generate(ids(), **OPTIONS, num_beams=3)


@case
def whisper():
    config = hf.WhisperConfig(d_model=HIDDEN, encoder_layers=LAYERS, decoder_layers=LAYERS,
                              encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
                              encoder_ffn_dim=FFN, decoder_ffn_dim=FFN, vocab_size=VOCAB, num_mel_bins=8,
                              max_source_positions=50,
                              max_target_positions=32,
                              pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
                              suppress_tokens=None,
                              begin_suppress_tokens=None)
    model = made("whisper", hf.WhisperForConditionalGeneration, config)
    model.generation_config.suppress_tokens = model.generation_config.begin_suppress_tokens = None
    torch.manual_seed(1)
    model.generate(torch.randn(BATCH, 8, 100), decoder_input_ids=ids(3), max_new_tokens=NEW, min_new_tokens=NEW,
                   do_sample=False, pad_token_id=0)


@case
def assisted():
    torch.manual_seed(0)
    assistant = made("draft", hf.LlamaForCausalLM, hf.LlamaConfig(**{**GATED, "num_hidden_layers": 1}))
    llama("assisted").generate(ids(batch=1), **OPTIONS, assistant_model=assistant)


@case
def looked_up():
    torch.manual_seed(0)
    repeated = torch.tensor([[5, 6, 7, 8] * 5])
    llama("looked_up").generate(repeated, **{**OPTIONS, "max_new_tokens": 12}, prompt_lookup_num_tokens=3)


@case
def chunked():
    model = llama("chunked")
    model.generate(ids(), **OPTIONS, prefill_chunk_size=4)
    model.generate(ids(6), **OPTIONS, prefill_chunk_size=4)


@case
def turns():
    """A conversation of two turns: the second turn continues with the cache of the first."""
    model = llama("turns")
    cache = hf.DynamicCache(config=model.config)
    first = model.generate(ids(), **OPTIONS, past_key_values=cache)
    more = torch.cat([first, ids(4)], 1)
    second = model.generate(more, attention_mask=torch.ones_like(more), **OPTIONS, past_key_values=cache)
    # The last answer's last token is not in the cache yet, so this turn brings two tokens.
    more = torch.cat([second, ids(1)], 1)
    model.generate(more, attention_mask=torch.ones_like(more), **OPTIONS, past_key_values=cache)


@case
def image():
    vision = hf.CLIPVisionConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                                 image_size=16, patch_size=8, projection_dim=32)
    config = hf.LlavaConfig(vision_config=vision, text_config=hf.LlamaConfig(**GATED), image_token_index=100,
                            vision_feature_layer=-1)
    prompt = ids()
    prompt[:, 2:6] = 100
    torch.manual_seed(1)
    made("image", hf.LlavaForConditionalGeneration, config).generate(prompt, pixel_values=torch.randn(BATCH, 3, 16,
                                                                                                      16), **OPTIONS)


@case
def captions():
    """An encoder of pictures and a decoder that begins with one token."""
    encoder = hf.ViTConfig(hidden_size=HIDDEN, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                           image_size=16, patch_size=8)
    decoder = hf.GPT2Config(n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, vocab_size=VOCAB, n_positions=64, n_inner=FFN,
                            add_cross_attention=True)
    config = hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    torch.manual_seed(1)
    made("captions", hf.VisionEncoderDecoderModel, config).generate(torch.randn(BATCH, 3, 16, 16), **OPTIONS,
                                                                    decoder_start_token_id=1)


@case
def narrow():
    """An encoder that is not as wide as its decoder: a projection comes before the table in each pass."""
    encoder = hf.ViTConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                           image_size=16, patch_size=8)
    decoder = hf.GPT2Config(n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, vocab_size=VOCAB, n_positions=64, n_inner=FFN,
                            add_cross_attention=True)
    config = hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    model = made("narrow", hf.VisionEncoderDecoderModel, config)
    torch.manual_seed(1)
    for _ in range(2):
        model.generate(torch.randn(BATCH, 3, 16, 16), **OPTIONS, decoder_start_token_id=1)


@case
def uneven():
    """Prompts one after the other. A prompt of two tokens follows one of one token; that is no growing sequence."""
    model = llama("uneven", "sdpa")
    for length, new in ((7, 5), (1, 4), (2, 3)):
        model.generate(ids(length), **{**OPTIONS, "max_new_tokens": new})


@case
def tiles():
    """Pictures in tiles. The model looks up an embedding for the way they are tiled, which is no token."""
    vision = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_global_layers=1, attention_heads=2,
                  image_size=16, patch_size=8, max_num_tiles=2, vision_output_dim=64, intermediate_layers_indices=[0],
                  supported_aspect_ratios=[[1, 1], [1, 2], [2, 1]])
    text = dict(GATED, num_hidden_layers=3, cross_attention_layers=[1], pad_token_id=0)
    model = made("tiles", hf.MllamaForConditionalGeneration,
                 hf.MllamaConfig(image_token_index=100, vision_config=vision, text_config=text))
    prompt = ids(batch=1)
    prompt[:, 1] = 100
    torch.manual_seed(1)
    model.generate(prompt, pixel_values=torch.randn(1, 1, 2, 3, 16, 16), aspect_ratio_ids=torch.tensor([[1]]),
                   aspect_ratio_mask=torch.ones(1, 1, 2, dtype=torch.long),
                   cross_attention_mask=torch.ones(1, PROMPT, 1, 2, dtype=torch.long), **OPTIONS)


@case
def embedded():
    """A prompt given as embeddings that the program looked up itself, with grad mode on."""
    model = llama("embedded", "sdpa")
    model.generate(inputs_embeds=model.get_input_embeddings()(ids()), **OPTIONS)


@case
def one_new_token():
    """Only one token is generated, so no pass follows the prompt."""
    llama("one_new_token").generate(ids(), **{**OPTIONS, "max_new_tokens": 1})


@case
def inference_mode():
    model = llama("inference_mode", "sdpa")
    with torch.inference_mode():
        model.generate(ids(), **OPTIONS)


@case
def by_hand():
    """A loop of the program's own, with grad mode left on."""
    model, tokens, cache = llama("by_hand"), ids(), None
    for _ in range(NEW):
        out = model(tokens, past_key_values=cache, use_cache=True)
        tokens, cache = out.logits[:, -1:].argmax(-1).detach(), out.past_key_values


@case
def half():
    llama("half").to(torch.bfloat16).generate(ids(), **OPTIONS)


SPECULATIVE = ("assisted", "draft", "looked_up")


class Oracle:
    """Counts each call of a model, or of its encoder, with FlopCounterMode. It is prefill if nothing is cached yet."""

    def __init__(self):
        self.passes, self.inside = [], False

    def watch(self, model):
        self.patch(model, type(model).__name__, False)
        for part in ("encoder", "vision_tower", "multi_modal_projector"):
            encoder = getattr(getattr(model, "model", model), part, None) or getattr(model, part, None)
            if encoder is not None:
                self.patch(encoder, type(model).__name__, True)

    def patch(self, module, name, encodes):
        forward = module.forward

        @functools.wraps(forward)  # generate() inspects the signature
        def counted(*args, **kwargs):
            if self.inside:
                return forward(*args, **kwargs)
            cache = next((kwargs[key] for key in ("past_key_values", "cache_params") if kwargs.get(key) is not None),
                         None)
            filled = is_filled(cache)
            given = kwargs.get("decoder_input_ids", None) if not encodes else None
            given = given if given is not None else kwargs.get("input_ids", args[0] if args else None)
            tokens = 0 if given is None or given.is_floating_point() else given.numel()
            if given is None and kwargs.get("inputs_embeds") is not None:
                tokens = kwargs["inputs_embeds"].shape[:2].numel()
            several = given is not None and given.dim() == 2 and given.shape[1] > 1
            if filled and several and name not in SPECULATIVE:
                filled = False  # this is another part of the prompt
            before = [each for each in self.passes if each["model"] == name and not each["encodes"]]
            again = not encodes and cache is None and bool(before)
            phase = "decode" if (filled or again) and not encodes else "prefill"
            with FlopCounterMode(display=False, custom_mapping=MAPPING) as counter:
                self.inside = True
                try:
                    result = forward(*args, **kwargs)
                finally:
                    self.inside = False
            self.passes.append({"model": name, "phase": phase, "tokens": tokens, "flop": counter.get_total_flops(),
                                "encodes": encodes})
            return result

        module.forward = counted


def is_filled(cache):
    if cache is None:
        return False
    try:
        return bool(cache.get_seq_length())
    except ValueError:  # it holds a state instead of keys
        return bool(cache.has_previous_state())


def attended(query, key, value, dropout_p=0.0, is_causal=False, **more):
    """torch has no formula for the CPU's fused attention. A causal one needs its triangle (docs/formats/run.md)."""
    batch, heads, queries, width = query
    keys = key[2]
    pairs = queries * (queries + 1) // 2 if is_causal else queries * keys
    return 2 * batch * heads * pairs * (width + value[-1])


MAPPING = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attended}


def main(arguments):
    oracle = Oracle() if "--oracle" in arguments else None
    if oracle is not None:
        inner = globals()["made"]

        def watched(*args, **kwargs):
            model = inner(*args, **kwargs)
            oracle.watch(model)
            return model

        globals()["made"] = watched
        arguments = arguments[1:]
    for name in arguments or CASES:
        CASES[name]()
    if oracle is not None:
        print(json.dumps(oracle.passes))


if __name__ == "__main__":
    main(sys.argv[1:])
