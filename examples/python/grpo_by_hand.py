"""GRPO written by hand: generate a group of answers for each prompt, reward them, train on them. The program does not
use mfu.

    mfu run -- python examples/python/grpo_by_hand.py

The summary tells generation, reward and training apart, each with its own MFU and MBU, and says what to change first
(docs/generation.md).
"""

import torch
import transformers

PROMPTS, GROUP, PROMPT, NEW, STEPS = 4, 4, 16, 24, 6
SIZES = dict(
    hidden_size=128,
    intermediate_size=352,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=512,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=0,
)


def log_probabilities(model, answers):
    logits = model(input_ids=answers).logits[:, :-1]
    return torch.log_softmax(logits, -1).gather(-1, answers[:, 1:, None]).squeeze(-1)


def main():
    torch.manual_seed(0)
    policy = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    judge = transformers.Qwen2ForSequenceClassification(transformers.Qwen2Config(**SIZES, num_labels=1)).eval()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
    for _ in range(STEPS):
        prompts = torch.randint(3, 512, (PROMPTS, PROMPT)).repeat_interleave(GROUP, 0)
        policy.eval()
        with torch.no_grad():
            answers = policy.generate(
                prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=NEW, do_sample=True
            )
            reward = judge(input_ids=answers).logits.view(PROMPTS, GROUP)
        advantage = ((reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        policy.train()
        loss = -(advantage * log_probabilities(policy, answers))[:, PROMPT - 1:].mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
