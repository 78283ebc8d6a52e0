"""The inputs of one step of a diffusers model. This is a part of the script that ends with ask_class.py.

The sizes of latents, texts and times come from the config and the question. As with transformers, if a class refuses an
input, another shape is tried, and no model is named here."""

PICTURE_TO_LATENT = 8


def diffusion_model(torch, config, request, values, notes, recorder):
    """The library, its model on the meta device, and what the model can be given."""
    import diffusers

    name = config["_class_name"]
    found = getattr(diffusers, name, None) if name.isidentifier() else None
    if not isinstance(found, type) or not hasattr(found, "from_config") or not issubclass(found, torch.nn.Module):
        raise Refused(f"diffusers {diffusers.__version__} has no model {name}")
    request["known"] = True
    if request["phase"] in ("prefill", "decode"):
        raise Refused(f"{name} has no cache: --phase train or forward")
    with torch.device("meta"):
        model = found.from_config({key: value for key, value in config.items() if key != "quantization_config"})
    model = model.to("meta")
    if len(request["steps"]) > 1:
        raise Refused(f"{name} takes no text of its own: its sequences have no lengths")
    return diffusers, model, lambda asked: DiffusionInputs(torch, model, asked, values, notes, recorder)


def number(config, *names, default=None):
    for name in names:
        value = config.get(name)
        if isinstance(value, (list, tuple)) and value and all(isinstance(each, int) for each in value):
            value = value[-1]
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return default


class DiffusionInputs(Inputs):
    """The tensors that a diffusion model can be given. A config is a plain mapping here."""

    def __init__(self, torch, model, request, values, notes, recorder):
        self.recorder = recorder
        self.torch, self.model, self.request, self.values, self.notes = torch, model, request, values, notes
        self.config, self.batch, self.sequence = dict(model.config), request["batch"], request["sequence"]
        self.taken = inspect.signature(model.forward).parameters
        self.documented = documented(model)
        self.token, self.said, self.places = 0, False, 0
        self.encoder = self.text = request.get("encoder_sequence") or number(
            self.config, "max_text_seq_length", "text_len", default=77
        )
        self.frames = request.get("frames") or 1
        self.coder = (
            any(hasattr(model, each) for each in ("encode", "encoder"))
            and "timestep" not in self.taken
            and "timesteps" not in self.taken
        )
        self.size = self.latent_size()

    def latent_size(self):
        request, config = self.request, self.config
        if self.coder and request.get("image"):
            return list(request["image"])
        if request.get("latent"):
            return list(request["latent"])
        if request.get("image"):
            self.say(
                f"a latent is taken as 1/{PICTURE_TO_LATENT} of the picture in each direction (--latent HxW says"
                " otherwise)"
            )
            return [side // PICTURE_TO_LATENT for side in request["image"]]
        if isinstance(config.get("sample_height"), int) and isinstance(config.get("sample_width"), int):
            return [config["sample_height"], config["sample_width"]]
        size = config.get("sample_size")
        if isinstance(size, int):
            return [size, size]
        if isinstance(size, (list, tuple)) and len(size) >= 2:
            return list(size[-2:])
        raise Refused("its picture has no size in the config: give --image HxW or --latent HxW")

    # -- latents

    def latents(self, channels=None):
        """Shapes of a latent: pictures, videos with the frames before or after the channels, or rows of patches."""
        config, batch, frames, (high, wide) = self.config, self.batch, self.frames, self.size
        channels = channels or number(config, "in_channels", "latent_channels", default=4)
        patch = number(config, "patch_size", default=2)
        rows = frames * (high // 2) * (wide // 2)
        whole_rows = frames * high * wide
        picture = [((batch, channels, high, wide), "float")]
        video = [((batch, channels, frames, high, wide), "float"), ((batch, frames, channels, high, wide), "float")]
        packed = [
            ((batch, rows, channels), "float"),
            ((batch, whole_rows, channels), "float"),
            ((batch, whole_rows // (patch * patch), channels), "float"),
        ]
        deep = "3D" in type(self.model).__name__ or any(
            isinstance(each, self.torch.nn.Conv3d) for each in self.model.modules()
        )
        if "num_frames" in self.taken and "height" in self.taken:
            return [packed[1], *video, *packed]
        if any(each in self.taken for each in ("img_ids", "img_shapes", "position_ids")):
            return [*packed, *picture, *video]
        return [*video, *picture, *packed] if deep or self.frames > 1 else [*picture, *video, *packed]

    def rows(self):
        """Positions of the latent that was accepted, in the form that img_ids and img_shapes need."""
        return self.frames * (self.size[0] // 2) * (self.size[1] // 2)

    def of_hidden_states(self):
        return self.latents()

    of_sample = of_latents = of_x = of_hidden_states

    def of_controlnet_cond(self):
        channels = number(self.config, "conditioning_channels")
        high, wide = self.size
        pixels = [((self.batch, channels or 3, PICTURE_TO_LATENT * high, PICTURE_TO_LATENT * wide), "float")]
        return pixels + self.latents(channels) if channels else self.latents() + pixels

    # -- texts

    def texts(self, *names):
        widths = [each for each in (number(self.config, name) for name in names) if each]
        if widths and not self.said:
            self.said = True
            self.say(f"{self.text} text tokens (--encoder-seq)")
        return [((self.batch, self.text, width), "float") for width in dict.fromkeys(widths)] or None

    def of_encoder_hidden_states(self):
        if self.config.get("encoder_hid_dim"):
            return self.texts("encoder_hid_dim")
        return self.texts(
            "joint_attention_dim",
            "caption_channels",
            "caption_dim",
            "text_embed_dim",
            "text_dim",
            "cross_attention_dim",
            "cap_feat_dim",
            "encoder_hid_dim",
            "cross_attention_input_dim",
            "txt_in_features",
            "in_text_dim",
            "text_states_dim",
            "caption_projection_dim",
            "pooled_projection_dim",
            "encoder_hidden_size",
        )

    of_cap_feats = of_encoder_hidden_states

    def of_encoder_hidden_states_t5(self):
        return self.texts("cross_attention_dim_t5", "text_embed_dim_t5", "caption_channels")

    def of_encoder_hidden_states_2(self):
        return self.texts("text_embed_2_dim", "text_embed_dim_2")

    def of_encoder_attention_mask(self):
        return [((self.batch, self.text), "one"), ((self.batch, self.text), "float")]

    of_encoder_hidden_states_mask = of_encoder_mask = of_text_embedding_mask = of_text_embedding_mask_t5 = (
        of_encoder_attention_mask
    )
    of_encoder_attention_mask_2 = of_encoder_attention_mask

    def of_pooled_projections(self):
        width = number(self.config, "pooled_projection_dim", "in_text_dim2", "text_embed_dim_pooled", "pooled_text_dim")
        return [((self.batch, width), "float")] if width else None

    # -- the rest

    def of_timestep(self):
        return [((self.batch,), "float"), ((self.batch,), "id")]

    of_timesteps = of_timestep_r = of_t = of_guidance = of_fps = of_timestep_ratio = of_r_timestep = of_timestep

    def of_class_labels(self):
        config = self.config
        if config.get("class_embed_type") in ("projection", "simple_projection"):
            return [((self.batch, number(config, "projection_class_embeddings_input_dim", default=1)), "float")]
        return [((self.batch,), "id")]

    def of_img_ids(self):
        axes = self.config.get("axes_dims_rope") or self.config.get("axes_dim") or [0, 0, 0]
        return [((self.rows(), len(axes)), "float"), ((self.batch, self.rows(), len(axes)), "float")]

    def of_txt_ids(self):
        axes = self.config.get("axes_dims_rope") or self.config.get("axes_dim") or [0, 0, 0]
        return [((self.text, len(axes)), "float"), ((self.batch, self.text, len(axes)), "float")]

    def of_img_shapes(self):
        return [(None, [[(self.frames, self.size[0] // 2, self.size[1] // 2)]] * self.batch)]

    def of_txt_seq_lens(self):
        return [(None, [self.text] * self.batch)]

    def of_num_frames(self):
        return [(None, self.frames)]

    def of_height(self):
        return [(None, self.size[0])]

    def of_width(self):
        return [(None, self.size[1])]

    def of_original_size(self):
        return [((self.batch, 2), "float")]

    of_target_size = of_crop_coords = of_original_size

    def of_image_meta_size(self):
        return [((self.batch, 6), "float")]

    def of_style(self):
        return [((self.batch,), "id")]

    def of_added_time_ids(self):
        return [((self.batch, 3), "float")]

    def of_padding_mask(self):
        return [((1, 1, *self.size), "float")]

    def of_image_rotary_emb(self):
        width = number(self.config, "attention_head_dim", default=64)
        patch = number(self.config, "patch_size", default=2)
        rows = self.frames * (self.size[0] // patch) * (self.size[1] // patch)
        made = self.torch.empty((rows, width), device="meta")
        return [(None, (made, made))]

    def of_added_cond_kwargs(self):
        config, torch, batch = self.config, self.torch, self.batch
        floats = lambda *sizes: torch.empty(sizes, dtype=self.model.dtype, device="meta")  # noqa: E731
        if config.get("addition_embed_type") == "text_time":
            width = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
            return [(None, {"text_embeds": floats(batch, width), "time_ids": floats(batch, 6)})]
        if config.get("addition_embed_type") in ("image", "image_hint", "text_image"):
            width = number(config, "encoder_hid_dim", "cross_attention_dim", default=1)
            return [(None, {"image_embeds": floats(batch, width), "text_embeds": floats(batch, width)})]
        if getattr(self.model, "use_additional_conditions", None) or config.get("use_additional_conditions"):
            return [(None, {"resolution": floats(batch, 2), "aspect_ratio": floats(batch, 1)})]
        return [(None, {"resolution": None, "aspect_ratio": None})]

    def shapes(self, name):
        made = getattr(self, "of_" + name, None)
        return made() if made is not None else None

    def tensor(self, shape):
        if shape[0] is None:
            return shape[1]
        return super().tensor(shape)

    def tokens(self, given):
        """The number of positions of the latent, divided into the model's own patches."""
        latent = next(iter(given.values()))
        if latent.dim() == 3:
            return latent.shape[0] * latent.shape[1]
        patch, time = number(self.config, "patch_size", default=1), number(self.config, "patch_size_t", default=1)
        return self.batch * max(1, self.frames // time) * (self.size[0] // patch) * (self.size[1] // patch)

    def first(self):
        config, taken = self.config, self.taken
        main = next((each for each in ("hidden_states", "sample", "latents", "x") if each in taken), None)
        if main is None:
            raise Refused(
                f"{type(self.model).__name__} takes {', '.join(taken)}: what that looks like is not known here"
            )
        wanted = {
            "timestep": True,
            "timesteps": True,
            "t": True,
            "encoder_hidden_states": True,
            "cap_feats": True,
            "pooled_projections": True,
            "encoder_hidden_states_t5": True,
            "img_ids": True,
            "txt_ids": True,
            "img_shapes": True,
            "controlnet_cond": True,
            "num_frames": "height" in taken,
            "height": True,
            "width": True,
            "guidance": bool(config.get("guidance_embeds")),
            "class_labels": bool(
                config.get("num_embeds_ada_norm") or config.get("num_class_embeds") or config.get("class_embed_type")
            )
            and not config.get("caption_channels"),
            "added_cond_kwargs": bool(config.get("addition_embed_type") or "use_additional_conditions" in config),
        }
        required = [
            name
            for name, each in taken.items()
            if each.default is inspect.Parameter.empty and each.kind is each.POSITIONAL_OR_KEYWORD
        ]
        names = [main] + [each for each in taken if each != main and (wanted.get(each) or each in required)]
        return [each for each in names if each in required or self.shapes(each)]
