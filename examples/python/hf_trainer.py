"""The monitor in transformers' Trainer, by a small callback.

    python examples/python/hf_trainer.py [OUTPUT_DIR]
"""

import sys

import torch
import transformers

import mfu

LENGTH = 64


class MonitorCallback(transformers.TrainerCallback):
    def __init__(self, monitor):
        self.monitor = monitor

    def on_step_begin(self, args, state, control, **kwargs):
        shape = {"batch": args.per_device_train_batch_size * args.gradient_accumulation_steps, "seq": LENGTH}
        self.step = self.monitor.step(state.global_step + 1, epoch=state.epoch, **shape)
        self.step.__enter__()

    def on_step_end(self, args, state, control, **kwargs):
        self.step.__exit__(None, None, None)


class Lines(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(0, 512, (LENGTH,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


def main():
    output_dir = sys.argv[1] if len(sys.argv) > 1 else "outputs"
    config = transformers.LlamaConfig(
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
    )
    model = transformers.LlamaForCausalLM(config)
    arguments = transformers.TrainingArguments(
        output_dir=output_dir,
        max_steps=12,
        per_device_train_batch_size=2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    with mfu.Monitor(model=model, device="auto", dtype="fp32", output_dir=output_dir) as monitor:
        transformers.Trainer(
            model=model, args=arguments, train_dataset=Lines(), callbacks=[MonitorCallback(monitor)]
        ).train()
        monitor.flush()
        report = monitor.last_report()
    print(
        f"step {report['step']}: {report['perf/step_time'] * 1e3:.0f} ms, MFU {report['perf/mfu_percent']:.1f}%, FLOPs"
        f" {report['source']}"
    )


if __name__ == "__main__":
    main()
