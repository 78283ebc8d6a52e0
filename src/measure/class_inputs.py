"""Finds from its class which inputs a transformers model takes in one step. This is a part of the script that ends with
ask_class.py.

Each argument of forward() has one or more possible shapes, which follow from the sizes in the config. If a call fails,
its message says which argument is missing or that a shape is wrong, and the next ones are tried. No model is named
here."""

import inspect
import itertools
import re

TEXT = ("input_ids", "decoder_input_ids")
MAIN = """
    input_ids pixel_values pixel_values_videos input_features input_values past_values audio_values
    decoder_input_ids
""".split()
MOST_TRIED = 24


def configs_of(config, depth=0):
    """A config and the configs inside it, outer before inner."""
    yield config
    inner = [value for value in vars(config).values() if hasattr(value, "to_dict") and hasattr(value, "model_type")]
    for each in inner if depth < 3 else ():
        yield from configs_of(each, depth + 1)


def within(config, *words):
    """The config of one part, such as vision. If there is none, the whole config."""
    for each in configs_of(config):
        for word in words:
            inner = getattr(each, word, None)
            if inner is not None and hasattr(inner, "to_dict"):
                return inner
    return config


def size_in(config, *names, default=None):
    """The first of these fields that is a number, in the config or in those inside it."""
    for each in configs_of(config):
        for name in names:
            value = getattr(each, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
            if isinstance(value, (list, tuple)) and value and all(isinstance(size, int) for size in value):
                return value[-1]
    return default


def documented(model):
    """The shapes of arguments that the documentation of a class states."""
    return dict(re.findall(r"^\s*(\w+)\s*\(.*?of shape `\(([^)`]*)\)`", model.forward.__doc__ or "", re.MULTILINE))


def plain_token(config):
    """An ordinary token: neither padding nor a placeholder of a picture."""
    special = set()
    for each in configs_of(config):
        for name, value in vars(each).items():
            if "token" in name and isinstance(value, int):
                special.add(value)
            elif "token" in name and isinstance(value, (list, tuple)):
                special.update(each for each in value if isinstance(each, int))
    vocabulary = size_in(config, "vocab_size", default=1 << 30)
    return next((token for token in range(5, vocabulary) if token not in special), 0)


def picture_size(config, request):
    if request.get("image"):
        return list(request["image"])
    part = within(config, "vision_config", "backbone_config")
    for each in (*configs_of(part), *configs_of(config)):
        for name in ("image_size", "img_size", "input_size", "crop_size"):
            size = getattr(each, name, None)
            if isinstance(size, int) and size > 0:
                return [size, size]
            if isinstance(size, (list, tuple)) and len(size) >= 2 and all(isinstance(side, int) for side in size):
                return list(size[-2:])
            if isinstance(size, dict) and "height" in size:
                return [size["height"], size["width"]]
    return None


class Inputs:
    """The tensors that a class can be given."""

    def __init__(self, torch, model, request, values, notes, recorder):
        self.recorder = recorder
        self.torch, self.model, self.request, self.values, self.notes = torch, model, request, values, notes
        self.config, self.batch, self.sequence = model.config, request["batch"], request["sequence"]
        self.taken = inspect.signature(model.forward).parameters
        self.documented = documented(model)
        self.token = plain_token(self.config)
        self.encoder = request.get("encoder_sequence") or self.sequence
        self.kind = model.config.model_type
        # the positions of a picture's placeholders in each text, and their token
        self.places, self.place_token = 0, None

    # -- shapes, by the argument's name

    def shapes(self, name):
        """(sizes, "id" | "float" | "one" | values) to try for an argument, the likeliest first. Empty if nothing is
        known about it."""
        config, batch, sequence = self.config, self.batch, self.sequence
        made = getattr(self, "of_" + name, None)
        if made is not None:
            return made()
        if name in ("input_ids", "decoder_input_ids", "labels_ids"):
            length, books = self.length_of(name), size_in(config, "num_codebooks")
            if self.places and name == "input_ids":
                row = [self.place_token] * self.places + [self.token] * (length - self.places)
                return [((batch, length), [row] * batch)]
            inner = within(config, "decoder_config", "decoder")
            books = books or (size_in(inner, "num_channels") if inner is not config and name in TEXT else None)
            several = ((batch * (books or 1), length), (batch, length, books), (batch, books, length))
            return [((batch, length), "id")] + ([(sizes, "id") for sizes in several] if books else [])
        if name in ("attention_mask", "decoder_attention_mask"):
            return [((batch, self.length_of(name.replace("attention_mask", "input_ids"))), "one")]
        return self.by_documentation(name)

    def length_of(self, name):
        both = getattr(self.config, "is_encoder_decoder", False) and "decoder_input_ids" in self.taken
        return self.encoder if both and name == "input_ids" else self.sequence

    def of_pixel_values(self):
        part = within(self.config, "vision_config", "vision_tower_config", "backbone_config", "encoder")
        channels = size_in(part, "num_channels", "in_channels", "in_chans", "num_input_channels") or size_in(
            self.config, "num_channels", "in_channels", "in_chans", default=3
        )
        size = picture_size(self.config, self.request)
        named = size is not None
        if size is None:
            size = [224, 224]
        batch, found = self.batch, []
        patch = size_in(part, "patch_size")
        frames = size_in(part, "num_frames", "frames_per_clip", "tubelet_size", default=1)
        still = [((batch, channels, *size), "float")]
        moving = [((batch, frames, channels, *size), "float"), ((batch, channels, frames, *size), "float")]
        tiles = size_in(self.config, "max_num_tiles", default=1)
        video = (
            "video" in str(getattr(self.model, "input_modalities", ""))
            or size_in(part, "num_frames", "frames_per_clip") is not None
        )
        found = [*moving, *still] if video else [*still, ((batch, 1, channels, *size), "float"), *moving[1:]]
        found.append(((batch, 1, tiles, channels, *size), "float"))
        if patch:  # patches laid out as rows
            time = size_in(part, "temporal_patch_size", default=1)
            rows = (size[0] // patch) * (size[1] // patch)
            found.append(((batch * rows, channels * time * patch * patch), "float"))
            found.append(((batch, rows, channels * time * patch * patch), "float"))
        if not named:
            self.say("its picture has no size in the config: 224x224 is taken (--image HxW)")
        return found

    def of_hidden_states(self):
        """For a vision tower that comes with a grid: its patches as rows."""
        if any("grid" in each for each in self.taken):
            return [each for each in self.of_pixel_values() if len(each[0]) == 2] or None
        return self.by_documentation("hidden_states")

    def of_pixel_values_videos(self):
        config = within(self.config, "vision_config")
        frames = size_in(config, "num_frames", "frames_per_clip", default=2)
        channels = size_in(config, "num_channels", "in_channels", "in_chans", default=3)
        size = picture_size(self.config, self.request) or [224, 224]
        return [((self.batch, frames, channels, *size), "float"), ((self.batch, channels, frames, *size), "float")]

    def of_pixel_mask(self):
        return [((self.batch, *(picture_size(self.config, self.request) or [224, 224])), "one")]

    def grid(self):
        part = within(self.config, "vision_config")
        patch = size_in(part, "patch_size", default=14)
        size = picture_size(self.config, self.request) or [224, 224]
        return [size[0] // patch, size[1] // patch]

    def of_image_grid_thw(self):
        return [((self.batch, 3), [[1, *self.grid()]] * self.batch)]

    of_grid_thw = of_video_grid_thw = of_image_grid_thw

    def of_image_grid_hws(self):
        return [((self.batch, 2), [self.grid()] * self.batch)]

    of_spatial_shapes = of_image_grid_hws

    def of_image_sizes(self):
        return [((self.batch, 2), [picture_size(self.config, self.request) or [224, 224]] * self.batch)]

    def of_token_type_ids(self):
        """1 for the placeholders of a picture, otherwise 0."""
        length = self.length_of("input_ids")
        return [((self.batch, length), [[1] * self.places + [0] * (length - self.places)] * self.batch)]

    of_mm_token_type_ids = of_token_type_ids

    def of_bbox(self):
        return [((self.batch, self.length_of("input_ids"), 4), "id")]

    def of_input_values(self):
        """Sound, as samples or as a spectrogram."""
        config, batch = self.config, self.batch
        mel = size_in(config, "num_mel_bins", "n_mels", "feature_size")
        frames = size_in(config, "max_length", "spec_size", default=self.encoder)
        found = [
            ((batch, self.encoder), "float"),
            ((batch, 1, self.encoder), "float"),
            (
                (batch, size_in(config, "audio_channels", "in_channels", "num_channels", default=1), self.encoder),
                "float",
            ),
        ]
        if mel:
            found = [
                ((batch, frames, mel), "float"),
                ((batch, mel, frames), "float"),
                ((batch, self.encoder, mel), "float"),
                *found,
            ]
        self.say("--seq counts samples or frames of sound")
        return found

    of_audio_values = of_input_values

    def of_input_features(self):
        config, batch = within(self.config, "audio_config", "encoder_config", "speech_config"), self.batch
        widths = [
            size
            for size in (
                size_in(config, "num_mel_bins", "n_mels", "mel_bins"),
                size_in(config, "feature_size"),
                size_in(
                    config, "input_feat_per_channel", "feature_projection_input_dim", "input_dim", "input_feat_size"
                ),
                size_in(config, "num_codebooks"),
                size_in(config, "hidden_size"),
            )
            if size
        ]
        lengths = [self.encoder]
        if size_in(config, "max_source_positions"):
            lengths = [2 * size_in(config, "max_source_positions"), self.encoder]
        self.say("--seq counts frames of sound, unless the class has a length of its own")
        square = size_in(config, "spec_size", "image_size")
        found = (
            [((batch, 1, self.encoder, square), "float"), ((batch, 1, 1024, widths[0] if widths else 64), "float")]
            if square
            else []
        )
        for length, width in itertools.product(lengths, dict.fromkeys(widths)):
            found += [((batch, width, length), "float"), ((batch, length, width), "float")]
        return sorted(found, key=lambda each: "max_source_positions" not in vars(config)) or None

    def of_input_features_mask(self):
        config = within(self.config, "audio_config", "encoder_config")
        return [
            ((self.batch, 2 * size_in(config, "max_source_positions", default=self.encoder // 2)), "one"),
            ((self.batch, self.encoder), "one"),
        ]

    of_feature_attention_mask = of_input_features_mask

    # -- series

    def series(self):
        config = self.config
        length = size_in(config, "context_length", "seq_length", default=self.sequence)
        lags = getattr(config, "lags_sequence", None) or [0]
        return length + max(lags)

    def of_past_values(self):
        channels = size_in(self.config, "num_input_channels", "input_size", default=1)
        wide = ((self.batch, self.series(), channels), "float")
        flat = ((self.batch, self.series()), "float")
        return [wide, flat] if hasattr(self.config, "num_input_channels") or channels > 1 else [flat, wide]

    def of_past_observed_mask(self):
        return [(sizes, "one") for sizes, _ in self.of_past_values()]

    def of_past_time_features(self):
        return [((self.batch, self.series(), size_in(self.config, "num_time_features", default=0)), "float")]

    def of_future_values(self):
        length = size_in(self.config, "prediction_length", default=1)
        return [((self.batch, length, *sizes[2:]), kind) for sizes, kind in self.of_past_values()]

    def of_static_categorical_features(self):
        return [((self.batch, size_in(self.config, "num_static_categorical_features", default=0)), "one")]

    def of_static_real_features(self):
        return [((self.batch, size_in(self.config, "num_static_real_features", default=0)), "float")]

    def of_future_time_features(self):
        return [
            (
                (
                    self.batch,
                    size_in(self.config, "prediction_length", default=1),
                    size_in(self.config, "num_time_features", default=0),
                ),
                "float",
            )
        ]

    # -- whatever the documentation gives a shape to

    def by_documentation(self, name):
        said = self.documented.get(name)
        if not said:
            return None
        sizes, config = [], self.config
        picture = picture_size(config, self.request) or [224, 224]
        for word in (each.strip(" `'\"") for each in said.split(",") if each.strip()):
            word = word.removeprefix("config.").removeprefix("self.")
            last = word.rsplit(".", 1)[-1]
            if word.isdigit():
                sizes.append(int(word))
            elif word in ("batch_size", "batch", "bs", "num_images", "batch_size * num_images"):
                sizes.append(self.batch)
            elif "target" in word or word in (
                "sequence_length",
                "seq_len",
                "seq_length",
                "text_sequence_length",
                "num_tokens",
            ):
                sizes.append(self.sequence)
            elif word in ("height", "image_height"):
                sizes.append(picture[0])
            elif word in ("width", "image_width"):
                sizes.append(picture[1])
            elif word == "image_size":
                sizes.append(picture[len([each for each in sizes if each in picture]) % 2])
            else:
                sizes.append(size_in(config, last, default=1))
        whole_numbers = re.search(rf"^\s*{name}\s*\(.*?(Long|Int)Tensor", self.model.forward.__doc__, re.MULTILINE)
        kind = (
            "float"
            if not name.endswith(("ids", "mask", "labels", "indices", "positions", "timesteps")) and not whole_numbers
            else "one"
            if name.endswith("mask")
            else "id"
        )
        return [(tuple(sizes), kind)]

    # -- tensors

    def say(self, note):
        if note not in self.notes:
            self.notes.append(note)

    def tensor(self, shape):
        torch, (sizes, kind) = self.torch, shape
        if isinstance(kind, list):
            return self.values.made(torch.tensor(kind, dtype=torch.long, device="cpu"))
        if kind == "float":
            return torch.empty(sizes, dtype=self.model.dtype, device="meta")
        made = torch.empty(sizes, dtype=torch.long, device="meta")
        if made.numel() <= MOST_KNOWN:
            self.values.keep(made, torch.full((), self.token if kind == "id" else 1, dtype=torch.long, device="cpu"))
        return made

    def tokens(self, given):
        """The number of positions of text, or, if there is no text, of pictures, sound or series."""
        text = given.get("decoder_input_ids", given.get("input_ids"))
        return text.numel() if text is not None else self.batch

    def first(self):
        """The names of the arguments that the first call gives."""
        required = [
            name
            for name, each in self.taken.items()
            if each.default is inspect.Parameter.empty
            and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
            and name != "kwargs"
        ]
        main = getattr(self.model, "main_input_name", "input_ids")
        if main not in self.taken:
            main = next((each for each in MAIN if each in self.taken), None)
        if main is None and not required:
            raise Refused(
                f"{type(self.model).__name__} takes {', '.join(self.taken)}: what that looks like is not known here"
            )
        names = [main] if main else []
        names += [each for each in required if each not in names]
        if "decoder_input_ids" in self.taken and main != "decoder_input_ids":
            names.append("decoder_input_ids")
        for each in ("static_categorical_features", "static_real_features"):
            if each in self.taken and size_in(self.config, "num_" + each):
                names.append(each)
        if self.request.get("image") and "pixel_values" in self.taken and "pixel_values" not in names:
            names.append("pixel_values")
        return names

    def missing(self, problem, names):
        """The arguments that a failed call asks for in its message."""
        said = str(problem)
        asked = [
            each
            for each in self.taken
            if each not in names
            and re.search(rf"\b{each}\b", said)
            and not each.endswith(("inputs_embeds", "_outputs", "labels"))
            and each not in ("past_key_values", "self", "kwargs")
        ]
        asked = [each for each in asked if self.shapes(each)]
        if asked or not isinstance(problem, (TypeError, AttributeError, ValueError, AssertionError)):
            return asked
        # The message does not tell. These are what such classes usually take in addition to their first input.
        likely = (
            "encoder_attention_mask",
            "encoder_hidden_states_mask",
            "pixel_values",
            "input_ids",
            "image_grid_thw",
            "grid_thw",
            "bbox",
            "input_features",
            "input_values",
            "image_sizes",
            "spatial_shapes",
            "future_values",
            "future_time_features",
        )
        masks = [each for each in self.taken if each.endswith("mask")]
        found = [each for each in (*likely, *masks) if each in self.taken and each not in names and self.shapes(each)][
            :1
        ]
        return found or [
            each
            for each in self.documented
            if each in self.taken
            and each not in names
            and "embed" not in each
            and not each.endswith(("labels", "_outputs", "head_mask"))
            and self.shapes(each)
        ]

    def make_places(self, problem):
        """Some classes require as many placeholders in the text as a picture has features. Puts them there. Returns
        whether that helps."""
        found = re.search(r"features and (\w+) tokens do not match.*features:? (\d+)", str(problem), re.IGNORECASE)
        if not found or self.places:
            return False
        kind = found[1].lower()
        self.place_token = size_in(self.config, f"{kind}_token_id", f"{kind}_token_index")
        places = int(found[2]) // self.batch
        width = size_in(within(self.config, "text_config"), "hidden_size", default=1)
        self.places = places // width if places > self.sequence and places % width == 0 else places
        if self.place_token is None or self.places > self.sequence:
            raise Refused(f"its pictures make {self.places} tokens of each text, and those have {self.sequence}: --seq")
        self.say(f"{self.places} tokens of each text are the picture's")
        return True

    def tried(self, call):
        """Runs call(arguments) with arguments that the class may accept, until it does. If nothing fits, reports the
        problem of the try that came farthest."""
        names, first, farthest, tries, seen = self.first(), None, -1, 0, set()
        while True:
            unknown = [each for each in names if not self.shapes(each)]
            if unknown:
                raise Refused(
                    f"{type(self.model).__name__} takes {unknown[0]}: what that looks like is not known here"
                    + (f" (it said: {brief(first)})" if first is not None else "")
                )
            added, later = [], []
            for shapes in itertools.product(*(self.shapes(each) for each in names)):
                given = {name: self.tensor(shape) for name, shape in zip(names, shapes)}
                tries += 1
                try:
                    return given, call(given)
                except Refused:
                    raise
                except Exception as problem:  # a class may raise anything for inputs that do not fit
                    if isinstance(problem, MemoryError) or getattr(problem, "mfu_end", False):
                        raise
                    if self.make_places(problem):
                        added = None
                        break
                    if self.recorder.seen > farthest:
                        first, farthest = problem, self.recorder.seen
                    lacking = [each for each in self.missing(problem, names) if each not in seen]
                    if "values to unpack" in str(problem):  # wrong number of axes: try other shapes first
                        lacking, later = [], later or lacking
                    added = lacking or added
                    if added or tries >= MOST_TRIED:
                        break
            if added is None:
                continue
            added = added or later
            if not added or tries >= MOST_TRIED:
                raise first
            seen.update(added)
            names = names + added


def brief(problem, most=300):
    said = f"{type(problem).__name__}: {' '.join(str(problem).split())[:most]}"
    short = "greater than actual input size" in said or "Padding size should be less than" in said
    return said + (" (its input is too short: give a longer --seq, --encoder-seq or --image)" if short else "")
