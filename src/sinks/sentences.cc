#include "sinks/sentences.h"

namespace mfu {

namespace {

constexpr Sentence kSentences[] = {
    // Options, as each voice names them.
    {"option", "device", "--device NAME (mfu peak --list)"},
    {"option", "peak", "--peak FLOP_PER_S"},
    {"option", "this", "--device this"},
    {"option", "dtype", "--dtype"},
    {"option", "model", "--model CONFIG --tokens N"},
    {"option", "config", "--model CONFIG"},
    {"option", "marker", "--step-marker"},
    {"option", "warmup", " (--warmup)"},
    {"option", "devices", "--devices"},
    {"option", "encoder", "--encoder-seq"},
    {"option", "assume", "--assume"},
    {"python", "mfu peak --list", "mfu.devices()"},
    {"python", "device", "device= (mfu.devices() lists them)"},
    {"python", "peak", "peak="},
    {"python", "this", "device= with this machine's processor"},
    {"python", "dtype", "dtype="},
    {"python", "model", "model= and tokens="},
    {"python", "config", "model="},
    {"python", "marker", "step_marker="},
    {"python", "warmup", " (warmup=)"},
    {"python", "devices", "devices="},
    {"python", "encoder", "encoder_seq="},
    {"python", "assume", "assume="},

    // Shares: of what "of" names.
    {"of", "window", "{fraction:percent} of the window ({duration_ns:time})"},
    {"of", "all_ranks", "{fraction:percent} of all ranks' time"},
    {"of", "step_time", "{fraction:percent} of step time"},
    {"of", "pass_time", "{fraction:percent} of the time of its passes"},
    {"of", "executed_flop", "{fraction:percent} of the executed FLOPs"},

    // Findings.
    {"title", "data_loading", "The device waits for data: {#of}"},
    {"title", "data_loading/step_time", "The loop waits for its next batch: {#of}"},
    {"title", "cpu_operators", "The device waits for work done on the CPU: {#of}"},
    {"title", "kernel_launch", "The host launches kernels slower than the device runs them: {#of}"},
    {"title", "kernel_launch@cpu",
     "Operators are so small that calling them costs more than they do: {#of}"},
    {"title", "synchronization",
     "The host waits for the device, and then the device for the host: {#of}"},
    {"title", "synchronization@cpu", "Values are read out of tensors one by one: {#of}"},
    {"title", "idle_unknown", "The device is idle, and the trace does not say why: {#of}"},
    {"title", "idle_unknown@cpu", "The CPU does nothing that the trace shows: {#of}"},
    {"title", "rank_wait", "This rank waits for others in collectives: {#of}"},
    {"title", "communication", "Communication that nothing hides: {#of}"},
    {"title", "communication/step_time", "The host waits in collectives: {#of}"},
    {"title", "copies", "Copies that nothing hides: {#of}"},
    {"title", "recomputation", "Activations are computed twice: {#of}"},
    {"title", "other_kernels", "Kernels that are no matmuls: {#of}"},
    {"title", "other_kernels@cpu", "Operators that are no matmuls: {#of}"},
    {"title", "precision", "Matmuls run in {dtype}: {#of}"},
    {"title", "matmul_below_peak",
     "Matmuls reach {reached_fraction:whole_percent} of the peak in the {#of} they take"},
    {"title", "optimizer", "The optimizer takes long: {#of}"},
    {"title", "threads", "Only {threads} of {cores} cores compute: up to {#of} could go"},
    {"title", "preprocessing", "The loader computes while the model waits: {#of}"},
    {"title", "host_code",
     "The main thread computes outside of torch (Python, numpy, tokenizers): {#of}"},
    {"title", "checkpoint", "Saving checkpoints stops the loop: {#of}"},
    {"title", "host_preempted",
     "Other processes had the cores while the program was ready to run: {#of}"},
    {"title", "host_sleeps", "The main thread sleeps: {#of}"},
    {"title", "host_files", "The main thread waits for files: {#of}"},
    {"title", "validation", "Validation passes: {#of}"},
    {"title", "generation_batch",
     "Decoding reads the weights for {batch:plain} sequences a pass, {weights_fraction:percent} of "
     "what it moves: a batch of {larger:plain} wins up to {#of}"},
    {"title", "generation_thin",
     "Decoding passes have {batch:plain} sequences on average and {largest} at most: a batch that "
     "stays full wins up to {#of}"},
    {"title", "generation_engine",
     "Decoding needs {roof_fraction:percent} of the time it takes, the rest is between and around "
     "its matmuls: up to {#of}"},
    {"title", "straggler",
     "Rank {rank} is slow: its own work takes {own_ns:time} a step, the others' {typical_ns:time}"},
    {"title", "tf32_not_allowed", "fp32 matmuls run without the TF32 units"},
    {"title", "passes_themselves", "The time is in the forward and backward passes themselves"},

    // What shows them.
    {"evidence", "optimizer_operators",
     "Each optimizer step calls {operators} operators of {mean_ns:time} on average"},
    {"evidence", "optimizer_loops", "{optimizer} loops over {tensors} tensors, one after another"},
    {"evidence", "optimizer_walks", "{optimizer} has {tensors} tensors"},
    {"evidence", "cores_used", "{used} of {cores} cores were busy"},
    {"evidence", "loader_works",
     "The loader computes most of that time, it does not wait for a disk"},
    {"evidence", "host_is_busy", "A core was busy meanwhile, and no operator of torch ran"},
    {"evidence", "items", "{calls} of them a step read a value (.item(), float(), if tensor:)"},
    {"evidence", "on_ranks", "Seen on {ranks} of {all} ranks, worst on rank {worst}"},
    {"evidence", "at_code", "Most of it is at {code}"},
    {"evidence", "data_waits",
     "{waits} waits, the longest {longest_ns:time}, with the host in {host}"},
    {"evidence", "loader_in_process",
     "The loader runs inside the training process (num_workers=0): nothing is loaded while the "
     "model computes"},
    {"evidence", "workers_do_not_keep_up", "The loader's workers do not keep up"},
    {"evidence", "host_operators",
     "Operators of the CPU ran while the device had no work: {operators}"},
    {"evidence", "mean_operator",
     "A step calls {events} operators of {mean_ns:time} on average, with {wait_ns:time} of Python "
     "between two"},
    {"evidence", "mean_event",
     "{events} device events of {mean_ns:time} on average; after each the device waits "
     "{wait_ns:time} for the host"},
    {"evidence", "waits_before", "The longest waits are before {events}"},
    {"evidence", "slow_launches",
     "{duration_ns:time} of it in {calls} launch calls that took a millisecond or more: the driver "
     "loads code at its first use"},
    {"evidence", "host_sat_in", "The host sat in {calls}"},
    {"evidence", "until_launched",
     "{duration_ns:time} more passed until the host had launched again"},
    {"evidence", "longest_gap", "The longest gap is {longest_ns:time}, before {next}: {reason}"},
    {"evidence", "before_graph_kernels",
     "{duration_ns:time} of it after a graph launch, before the graph's first kernel that was "
     "recorded: the profiler may have dropped kernels"},
    {"evidence", "waits_in",
     "It waits in {kernels}, from its own arrival to that of the last rank"},
    {"evidence", "hidden_communication",
     "{duration_ns:time} of communication, {hidden_fraction:whole_percent} of it behind "
     "computation"},
    {"evidence", "mostly", "Mostly {kernels}"},
    {"evidence", "longest", "The longest are {kernels}"},
    {"evidence", "wait_needs_all_ranks",
     "One rank's trace does not tell how much of it is waiting for others: pass all ranks' traces"},
    {"evidence", "not_pinned", "They come from memory that is not pinned"},
    {"evidence", "runs_again",
     "Forward operators run again inside the backward pass, {calls} of them matmuls or "
     "convolutions"},
    {"evidence", "softmax_alone",
     "Softmax runs alone ({duration_ns:time}): attention is not fused"},
    {"evidence", "in_optimizer", "{duration_ns:time} of it in the optimizer"},
    {"evidence", "peaks_by_type",
     "{device} has {peak_flop_per_s:tera} TFLOP/s in {dtype} and {faster_flop_per_s:tera} in "
     "{faster_dtype}"},
    {"evidence", "against_the_higher_peak",
     "MFU would then be measured against the higher peak: the step gets shorter, MFU need not "
     "rise"},
    {"evidence", "winnable",
     "Large matmuls reach {fraction:whole_percent} of the peak: no more is counted as winnable"},
    {"evidence", "slow_matmul",
     "{operator} {shapes} {dtype}: {calls}×, {duration_ns:time}, {peak_fraction:whole_percent} of "
     "peak"},
    {"evidence", "slow_matmul_at",
     "{operator} {shapes} {dtype}: {calls}×, {duration_ns:time}, {peak_fraction:whole_percent} of "
     "peak, {code}"},

    // What to change.
    {"fix", "start_workers",
     "DataLoader(num_workers=4 or more, pin_memory=True, persistent_workers=True); if it still "
     "waits: memory-mapped data, preprocessing offline"},
    {"fix", "more_workers",
     "More loader workers and a larger prefetch_factor, memory-mapped or pre-tokenised data, "
     "preprocessing offline or on the device"},
    {"fix", "preprocess_offline",
     "Preprocessing: do it offline or in loader workers, with memory-mapped data; anything else: "
     "on the device"},
    {"fix", "profile_after_warmup",
     "Profile after a few warm-up steps (torch.profiler.schedule(warmup=…)); this is the start, "
     "not the run"},
    {"fix", "launch_less",
     "torch.compile(mode=\"reduce-overhead\") or CUDA graphs, a larger batch"},
    {"fix", "fused_optimizer",
     "fused=True, as in torch.optim.AdamW(model.parameters(), fused=True)"},
    {"fix", "foreach_optimizer",
     "foreach=True, as in torch.optim.NAdam(model.parameters(), foreach=True)"},
    {"fix", "own_optimizer",
     "Update all tensors together (torch._foreach_add_ and kin), or use torch.optim's with "
     "fused=True"},
    {"fix", "set_threads",
     "torch.set_num_threads({cores}), or OMP_NUM_THREADS={cores} before the command"},
    {"fix", "compile_model", "model = torch.compile(model) makes few kernels of many operators"},
    {"fix", "larger_batch",
     "A larger batch (fewer passes accumulated into a step) makes the same operators do more"},
    {"fix", "read_values_less",
     "Read values once for many (tensor.tolist(), torch.where), and log every N steps"},
    {"fix", "explain_it", "mfu run --explain -- … shows which operators, and what to change"},
    {"fix", "read_device_less",
     "Avoid .item(), .cpu(), print(loss) and other reads of device values in the step; log every "
     "N steps; non_blocking=True copies"},
    {"fix", "record_the_host",
     "Record the host beside the device (activities CPU and CUDA, with_stack=True) over a few "
     "steps "
     "after warm-up; py-spy dump --pid shows where the program stands meanwhile"},
    {"fix", "record_stacks",
     "Record with with_stack=True over a few steps after warm-up; py-spy dump --pid shows where "
     "the "
     "program stands meanwhile"},
    {"fix", "balance_ranks",
     "Balance the ranks: equal batches and sequence lengths, no rank that logs, loads or "
     "checkpoints more than others; look at the slowest rank's own ledger"},
    {"fix", "overlap_communication",
     "Overlap it with computation (DDP bucket size bucket_cap_mb and gradient_as_bucket_view, "
     "FSDP prefetch); larger batch or gradient accumulation; bf16 gradients"},
    {"fix", "pin_memory",
     "Pin the memory (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with "
     "non_blocking=True while the device computes"},
    {"fix", "fewer_device_copies",
     "Copies within the device: avoid .contiguous(), .clone() and changes of layout; "
     "channels-last throughout; torch.compile removes many"},
    {"fix", "prefetch_batch", "Prefetch the next batch on a stream of its own, non_blocking=True"},
    {"fix", "checkpoint_less",
     "Checkpoint fewer layers, or selectively (keep matmul and attention outputs), if memory "
     "allows; a smaller batch with none may be faster"},
    {"fix", "flash_attention", "flash attention (scaled_dot_product_attention)"},
    {"fix", "channels_last", "channels-last (memory_format=torch.channels_last)"},
    {"fix", "compile_fuses", "torch.compile fuses element-wise and reduction kernels"},
    {"fix", "use_bf16", "BF16/mixed precision (torch.autocast)"},
    {"fix", "use_fp16", "FP16/mixed precision (torch.autocast)"},
    {"fix", "use_tf32", "or TF32: torch.set_float32_matmul_precision(\"high\")"},
    {"fix", "larger_matmuls", "larger batch (larger matmuls)"},
    {"fix", "even_shapes", "shapes that are multiples of 8, better 64 (pad the vocabulary)"},
    {"fix", "cudnn_benchmark", "torch.backends.cudnn.benchmark=True"},
    {"fix", "autotune", "torch.compile(mode=\"max-autotune\")"},
    {"fix", "save_aside", "torch.distributed.checkpoint.async_save, or save less often"},
    {"fix", "cores_of_its_own",
     "Stop what else runs on this machine, give the program cores of its own (taskset, cgroups, "
     "Slurm's --cpus-per-task), or set fewer threads (OMP_NUM_THREADS)"},
    {"fix", "look_where_it_sleeps",
     "Look for time.sleep, locks, sockets and subprocesses between steps: py-spy dump --pid shows "
     "where it stands"},
    {"fix", "larger_generation_batch",
     "Generate for more prompts at once (a larger generation batch, more samples a prompt)"},
    {"fix", "continuous_batching",
     "Continuous batching: a sequence that ends makes room for the next one (transformers' "
     "generate_batch, vLLM, SGLang)"},
    {"fix", "serving_engine",
     "Generate with a serving engine beside the trainer (vLLM or SGLang: fused kernels, CUDA "
     "graphs, paged cache), or a static cache with torch.compile"},
    {"fix", "validate_less", "Validate less often or on less"},
    {"fix", "look_at_slow_rank",
     "Look at what rank {rank} does that the others do not (input pipeline, logging, another job "
     "on its device)"},
    {"fix", "allow_tf32", "torch.set_float32_matmul_precision('high'), or bf16 autocast"},
};

}  // namespace

std::string_view sentence_of(std::string_view kind, std::string_view code) {
  for (std::span<const Sentence> all : {std::span<const Sentence>(kSentences), note_sentences()}) {
    for (const Sentence& each : all) {
      if (each.kind == kind && each.code == code) return each.text;
    }
  }
  return {};
}

}  // namespace mfu
