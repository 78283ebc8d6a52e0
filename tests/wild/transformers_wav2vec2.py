"""transformers' Wav2Vec2 with CTC: convolutions first, no tokens go in"""
NEEDS = ["transformers"]
EXPECT = {"steps": 2, "tokens": None, "samples": 4, "phases": {"train": 2}}

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

torch.manual_seed(0)
model = Wav2Vec2ForCTC(Wav2Vec2Config(
    vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    conv_dim=(16, 16), conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4, mask_time_prob=0.0, layerdrop=0.0))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(2, 1600), labels=torch.randint(1, 32, (2, 8))).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
