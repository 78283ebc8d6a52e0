#include "sinks/sentences.h"

namespace mfu {

namespace {

constexpr Sentence kNotes[] = {
    // Notes.
    {"note", "profiled",
     "profiled: {steps:steps} were explained, and {beside} more held up by that; none of them is "
     "in a rate, a share or a statistic"},
    {"note", "explain_own_profiler",
     "nothing was explained: the program uses torch's profiler itself, and there is only one a "
     "process. Its own trace goes to mfu explain"},
    {"note", "explain_failed", "nothing was explained: {reason}"},
    {"note", "explain_cut",
     "nothing was explained: the program ended inside the window (it {what})"},
    {"note", "explain_too_short",
     "nothing was explained: the program ended before the steps to explain began ({steps:steps} "
     "taken); --explain-after 1 begins earlier"},
    {"note", "explain_short",
     "{steps} of {wanted} steps were explained: the program ended before the others"},
    {"note", "explain_not_these_ranks", "nothing was explained: none of the named ranks stepped"},
    {"note", "explain_too_large",
     "traces of {ranks} more ranks were left out: together they are above {bytes}"},
    {"note", "said", "{text}"},
    {"note", "ranks_missing",
     "{seen} of {expected} ranks seen: the others ran under another launcher (give all of them one "
     "--dir on a shared folder), or never computed"},
    {"note", "restarted",
     "workers were started again {restarts} times; each keeps its rank, and what it did before and "
     "after counts"},
    {"note", "launcher_killed",
     "the launcher on {host} (pid {pid}) was killed: its ranks are counted until then"},
    {"note", "launcher_under_way",
     "the launcher on {host} (pid {pid}) has not ended yet: its ranks are counted until now"},
    {"note", "launchers_missing", "{seen} of {expected} launchers of the job were seen"},
    {"note", "peak_is_wider", "the device has no unit for {dtype}: its {against} peak is taken"},
    {"note", "peak_unverified", "the peak is not verified in any source we found"},
    {"note", "held_against_wider",
     "{dtype} matmuls are held against the {against} peak: the device has no unit for them"},
    {"note", "held_against_tf32",
     "{dtype} matmuls are held against the {against} peak: TF32 was allowed"},
    {"note", "held_against_asked",
     "{dtype} matmuls are held against the {against} peak ({@dtype})"},
    {"note", "several_types",
     "matmuls ran in several data types, each compared with its own peak; beside {dtype} also "
     "{other} ({peak_flop_per_s:tera} TFLOP/s)"},
    {"note", "model_given",
     "model_flop and mfu are of the model and tokens given; the ledger's lines and hfu are of the "
     "operators in the trace"},
    {"note", "no_flop_known",
     "no matmul's FLOPs are known, so there is no MFU: record with record_shapes=True, or pass "
     "{@model}"},
    {"note", "part_refused", "{why}. The rest is explained."},
    {"note", "lower_bound",
     "MFU is a lower bound: {fraction:whole_percent} of the matmul time has no known FLOPs "
     "(graphs, kernels without shapes or launch record); {@model} counts them all"},
    {"note", "lower_bound_by",
     "MFU is a lower bound: {fraction:whole_percent} of the matmul time has no known FLOPs (most "
     "of it {calls} calls of {operator}: {reason}); {@model} counts them all"},
    {"note", "faster_than_peak",
     "MFU {mfu:percent} is matmul_at_peak {at_peak_fraction:percent}, and "
     "{faster_fraction:percent} "
     "that {calls} calls saved by being faster than the peak (their algorithm multiplies less than "
     "is counted: Winograd, FFT), and {beside_fraction:percent} of matmuls that ran beside others: "
     "the ledger holds no more than the time there was"},
    {"note", "mfu_above_peak",
     "an MFU of {fraction:percent} contradicts itself: the suspect is the peak ({peak_source}); "
     "{@device}, {@peak} and {@dtype} set it"},
    {"note", "graph_kernels_lost",
     "{duration_ns:time} of idle_unknown lie between a graph launch and the first kernel of it "
     "that was recorded: the profiler seems to have dropped kernels, and the device was likely "
     "busy"},
    {"note", "idle_for_no_reason",
     "{duration_ns:time} idle for no reason the trace shows; the longest: {longest_ns:time} before "
     "{next}, {reason}"},
    {"note", "cpu_is_the_device",
     "the trace has no device events: its CPU's operators are the work"},
    {"note", "no_peak_of_cpu",
     "there is no peak to compare with, so there is no MFU; pass {@this} if the trace was made on "
     "this machine, or {@peak}"},
    {"note", "no_device_named",
     "the trace does not name its device: there is no peak to compare with, so all matmul time "
     "stands under matmul_flop_unknown and there is no MFU; pass {@device} or {@peak}"},
    {"note", "device_not_known",
     "the device '{device}' is not in the catalogue: there is no peak to compare with, so all "
     "matmul time stands under matmul_flop_unknown and there is no MFU; pass {@device} or {@peak}"},
    {"note", "no_collective_matched",
     "no collective could be matched across the ranks: waiting for another rank stands under "
     "exposed_communication_transfer"},
    {"note", "no_peak_for_type", "no peak for {dtype} on {device}: give {@peak}"},
    {"note", "timed_by_device",
     "times of steps, of waiting for data and of the optimizer are by the device's clock; those of "
     "phases are by the host's, which runs ahead"},
    {"note", "timed_by_host",
     "the device runs behind the host and was not asked for its time: times of steps and phases "
     "are the host's, and no advice is made of them"},
    {"note", "no_peak", "no peak, no MFU: give {@device} or {@peak}"},
    {"note", "model_changes_nothing",
     "{@config} changes nothing: attention did not run as plain matmuls"},
    {"note", "square_taken_off",
     "attention ran as plain matmuls over the full square; by {model} its exact area is {flop} "
     "FLOP less, taken off model_flop"},
    {"note", "square_attention",
     "if the batched matmuls are attention, they are counted over the full square, as executed: "
     "{@config} takes the exact area"},
    {"note", "padding_unread",
     "attention masks or labels lie on a device and were not waited for: padded tokens are not "
     "known"},
    {"note", "no_torch",
     "no process of this command imported torch: nothing was counted (is it another interpreter, "
     "started with -I or -E, or in a container?)"},
    {"note", "nothing_observed", "no process was observed: nothing was counted"},
    {"note", "no_step_seen",
     "no optimizer step was seen, so there is no step time and no MFU of steps: name what ends a "
     "step with {@marker}"},
    {"note", "passes_instead_of_steps",
     "no optimizer step was seen: MFU is over the time that its passes took ({@marker} names what "
     "ends a step)"},
    {"note", "mixed_passes",
     "{passes} passes decode some sequences and prefill others: their FLOPs are split by sequence, "
     "their time in proportion to what each part needs at the roof of the device"},
    {"note", "mixed_passes_by_flop",
     "{passes} passes decode some sequences and prefill others: their FLOPs are split by sequence, "
     "their time in proportion to FLOPs, because the device's bandwidth or peak is not known"},
    {"note", "no_bandwidth",
     "the memory bandwidth of {device} is not known, so there is no MBU: mfu peak --measure "
     "measures this machine's"},
    {"note", "mbu_above_one",
     "MBU is {fraction:percent}: what {phase} reads fits into the device's caches"},
    {"note", "warmup",
     "warm-up: the first {steps:steps} of {whose} left out of mfu, hfu and step_ns"},
    {"note", "warmup_asked",
     "warm-up: the first {steps:steps} of {whose} left out of mfu, hfu and step_ns{@warmup}"},
    {"note", "steps_dropped",
     "{steps} steps of process {pid} have no record: the disk or the drainer did not keep up "
     "(their FLOPs are in the totals)"},
    {"note", "products_unseen",
     "the gradients that {function} ({module}) gave are those of a matrix product ({shape}), and "
     "no "
     "counted operator ran in it: its FLOPs are missing, and MFU is a lower bound"},
    {"note", "mask_is_tensor",
     "a mask given as a tensor: all pairs are counted, fewer may be needed"},
    {"note", "causal_unknown", "whether it is causal was not recorded: all pairs are counted"},
    {"note", "groups_full",
     "all rows of a grouped multiply are counted, its offsets may use fewer"},
    {"note", "gradients_all", "which gradients were asked for was not recorded: both are counted"},
    {"note", "no_step_marked",
     "no step is marked (profiler.step() marks them): the window is the whole trace"},
    {"note", "rank_killed",
     "rank {number} ended without its last words: it was killed, or left by os._exit. What it "
     "counted until then is here"},
    {"note", "process_killed",
     "process {number} ended without its last words: it was killed, or left by os._exit. What it "
     "counted until then is here"},
    {"note", "ended_early_by_signal",
     "signal {number} ended the command before it computed anything"},
    {"note", "ended_early",
     "the command ended with status {number} before it computed anything: see what it printed"},
    {"note", "processor_shared",
     "{processes} processes share one processor: one device, with the peak of all cores they may "
     "use"},
    {"note", "processors_shared",
     "{processes} processes share a processor each host: one device, with the peak of all cores "
     "they may use"},
    {"note", "hosts_like_this",
     "{hosts} hosts: the peak of the others' processors is taken to be this one's"},
    {"note", "no_mfu_because", "no MFU: {why}"},

    // Notes of devices and their peaks.
    {"note", "no_peak_because", "no peak: {why}"},
    {"note", "driver_gives_no_name",
     "the driver gives no name, so no peak is known; give one with {@peak}"},
    {"note", "profile_guessed",
     "the driver names no profile: {profile} is a guess from its {slices} slices and {megabytes} "
     "MB; give {@peak} if it is another"},
    {"note", "processor_not_known",
     "no peak: this processor has no instruction set that we know; give one with {@peak}"},
    {"note", "cgroup_cores", "the cgroup grants {cores} of {all} cores"},
    {"note", "no_half_unit",
     "no bf16 or fp16 unit: such matmuls are computed in fp32, against its peak"},
    {"note", "bandwidth_not_measured",
     "memory bandwidth is not known until it is measured: mfu peak --measure"},
    {"note", "more_units",
     "the device says it has {units} units, the catalogue's {device} has {all}: its peak may be "
     "of another"},
    {"note", "share_of_units",
     "the device says it has {units} of {device}'s {all} units: the peak is that share of it"},
    {"note", "compute_slices",
     "{units} of {all} units: {slices} of the compute slices of {instance}; {source}"},
    {"note", "partition_units", "{units} of {all} units: {source}"},
    {"note", "memory_not_known", "its memory size is not known"},
    {"note", "bandwidth_not_known", "its memory bandwidth is not known"},
    {"note", "types_unverified",
     "not verified in any source we found: {dtypes}. An MFU on it carries this note."},
    {"note", "not_measured", "{dtype}: {why}"},
    {"note", "torch_not_measured", "not measured through PyTorch: {why}"},
    {"note", "measured_above_peak",
     "contradiction: {dtype} by {method} is {fraction:percent} of the peak. Suspect: {#suspect}"},
    {"suspect", "measured_clock",
     "the peak: the clock was measured lower than it was during the multiplies (another program "
     "ran?). Measure again."},
    {"suspect", "catalogue_clock",
     "the peak: the catalogue's clock or form (PCIe, SXM) is not this device's, or the device "
     "runs above its published clock."},

    // Notes of what a model needs.
    {"note", "head_counted_apart",
     "the head is counted apart from the embedding, as the config says; transformers 5 ties them "
     "whatever it says"},
    {"note", "blocks_shared",
     "the blocks are shared though tie_word_embeddings is false; transformers 5 then shares "
     "nothing"},
    {"note", "sound_not_counted",
     "sound: the audio tower's parameters are counted, its FLOPs are not: a step has none of it"},
    {"note", "no_vision_config", "no vision_config: the text part alone is counted"},
    {"note", "prompt_sees_itself",
     "the prompt sees all of itself; in training, where its length is not known, the pictures do"},
    {"note", "layers_elsewhere",
     "{file}: {found} of {layers} layers are in this file; only they are counted"},
    {"note", "from_tensor_shapes", "{file}: read from tensor shapes: a lower bound"},
    {"note", "from_tensor_shapes_without_heads",
     "{file}: read from tensor shapes: a lower bound, attention scores not known without the "
     "number of heads"},
    {"note", "picture_size_assumed", "picture size not known: {tokens} image tokens each assumed"},
    {"note", "mean_length_taken",
     "windowed layers need each length: the mean length was taken for them (give the list)"},
    {"note", "set_for_nothing", "'{field}' is set, but nothing counted here depends on it"},
    {"note", "default_of_class", "{field} is not in the config: {value} of its class"},
    {"note", "type_read_as_asked",
     "the type {type} is read as {family}, because {@assume} says so: its fields by that family's "
     "names, everything else as that family has it"},
    {"note", "no_type_read_as_asked",
     "the type that it lacks is read as {family}, because {@assume} says so: its fields by that "
     "family's names, everything else as that family has it"},
    {"note", "type_by_class",
     "the config has no model_type: taken as {type}, by its class {class}"},
    {"note", "class_of_another",
     "{class} is a class of {other}, and this config one of {type}: counted by its model_type"},
    {"note", "dtype_not_known",
     "the dtype '{dtype}' is not known: bytes as if its weights had {bits} bits"},
    {"note", "quantisation_not_known",
     "the quantisation '{method}' is not known: bytes as if there were none"},
    {"note", "bits_not_known", "{method} with {bits} bits is not known: bytes as if it had 4"},
    {"note", "meta_params", "Meta's params.json: read as a Llama, head and embedding apart"},
    {"note", "encoder_length_fixed", "encoder length {length}, as the config fixes it"},
    {"note", "encoder_length_as_sequence",
     "encoder length: the same as the sequence; {@encoder} sets it"},
    {"note", "parameters_trained", "{trained} of {all} parameters are trained"},
    {"note", "parts_by_exact",
     "the parts are counted by exact, and need not add up to this convention's total"},
    {"note", "training_bytes_not_counted",
     "what a training step moves is not counted: step_read, step_written and MBU are unknown"},
    {"note", "bytes_not_counted", "what a step moves is not counted: bytes and MBU are unknown"},
    {"note", "experts_read_evenly",
     "of E experts the step reads the E·(1 − (1 − k/E)^T) that T tokens of k each reach when the "
     "router chooses evenly"},
    {"note", "ran_uncounted", "{operator} ran {calls} times and is not counted"},
    {"note", "flopcounter_counts_more", "flopcounter counts {flop} more FLOP for {operator}"},
    {"note", "flopcounter_counts_fewer", "flopcounter counts {flop} fewer FLOP for {operator}"},
    {"note", "class_conventions",
     "of a model that its class counted, exact, flopcounter and flopcounter-fused are defined"},
    {"note", "by_convention", "{convention}: {#why}"},
    {"note", "why_convention", "{#why}"},
    {"why", "vision_model", "not defined for a vision model"},
    {"why", "encoder_decoder", "not defined for an encoder-decoder"},
    {"why", "not_a_causal_decoder", "defined for causal decoders only"},
    {"why", "state_space_layers", "does not know models with state-space layers"},
    {"why", "latent_attention", "does not know latent attention"},
    {"why", "type_counted_as_0", "counts 0 for model type {type}"},
    {"why", "pictures_left_out", "pictures are left out"},
    {"why", "counted_by_class", "is not defined for a model that its class counted"},

    // Notes of a comparison.
    {"note", "ranks_differ", "{before} ranks against {after}"},
    {"note", "tokens_differ",
     "a step has {before} tokens before and {after} after: the time of a token is compared, not "
     "that of a step"},
    {"note", "flop_differ",
     "a {unit} needs {before:four_digits} model FLOP before and {after:four_digits} after: that "
     "is other work, so MFU and speed need not move together"},
    {"note", "too_few_steps",
     "fewer than two steps after warm-up: a change cannot be told from noise, so there is no "
     "verdict"},
    {"note", "windows_compared",
     "steps are not marked in both: whole windows are compared, which is fair only if both did "
     "the same work; there is no verdict, because a window was measured once"},

    {"note", "above_peak", "{what} is {fraction:percent}, which cannot be. Suspect: {#suspect}"},
    {"suspect", "devices_or_peak",
     "the rate or time is of several devices (give {@devices}), or the peak is not in FLOP/s "
     "(312e12, not 312) or of another data type"},
    {"suspect", "peak_too_low",
     "the rate is of the whole job but the peak is too low: another form of the device (PCIe for "
     "SXM), another data type, or a sparse run"},
    {"suspect", "devices",
     "the number of devices, or a rate given per device and multiplied again"},
    {"suspect", "recomputation",
     "the recomputation policy: hardware FLOPs beyond what the time allows"},
    {"suspect", "bandwidth", "the bandwidth, or a batch that shares its weight reads"},
    {"suspect", "peak_or_devices",
     "the peak ({peak_source}), or the number of devices ({devices})"},
};

}  // namespace

std::span<const Sentence> note_sentences() {
  return kNotes;
}

}  // namespace mfu
