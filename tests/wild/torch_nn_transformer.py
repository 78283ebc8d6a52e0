"""torch's translation tutorial: nn.Transformer with padding masks, then greedy decoding without a cache"""

NEEDS = ["torch"]
WHY = "in evaluation mode nn.TransformerEncoder is one operator, which the counter does not look into"
EXPECT = {"steps": 3, "phases": {"train": 3, "prefill": 2, "decode": 4}}
import torch
from torch import nn

F = nn.functional
torch.manual_seed(0)


class S2S(nn.Module):
    def __init__(s):
        super().__init__()
        s.tr = nn.Transformer(32, 4, 2, 2, 64, dropout=0.0, batch_first=True)
        s.g = nn.Linear(32, 60)
        s.se, s.te = nn.Embedding(50, 32), nn.Embedding(60, 32)
        s.pe = nn.Parameter(torch.zeros(1, 20, 32))

    def forward(s, a, b, am, bm):
        return s.g(
            s.tr(
                s.se(a) + s.pe[:, : a.size(1)],
                s.te(b) + s.pe[:, : b.size(1)],
                tgt_mask=nn.Transformer.generate_square_subsequent_mask(b.size(1)),
                src_key_padding_mask=am,
                tgt_key_padding_mask=bm,
                memory_key_padding_mask=am,
            )
        )

    def encode(s, a):
        return s.tr.encoder(s.se(a) + s.pe[:, : a.size(1)])

    def decode(s, b, mem):
        return s.tr.decoder(
            s.te(b) + s.pe[:, : b.size(1)], mem, nn.Transformer.generate_square_subsequent_mask(b.size(1))
        )


m = S2S()
opt = torch.optim.Adam(m.parameters(), betas=(0.9, 0.98))
sch = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min((i + 1) / 2, 1))
for _ in range(3):
    a, b = torch.randint(1, 50, (4, 10)), torch.randint(1, 60, (4, 9))
    a[:, 8:] = 0
    b[:, 7:] = 0
    out = m(
        a,
        b[:, :-1],
        torch.zeros(a.shape).masked_fill(a == 0, float("-inf")),
        torch.zeros(b[:, :-1].shape).masked_fill(b[:, :-1] == 0, float("-inf")),
    )
    F.cross_entropy(out.flatten(0, 1), b[:, 1:].flatten(), ignore_index=0).backward()
    opt.step()
    sch.step()
    opt.zero_grad()
m.eval()
with torch.no_grad():
    mem = m.encode(torch.randint(1, 50, (1, 10)))
    y = torch.ones(1, 1, dtype=torch.long)
    for _ in range(5):
        y = torch.cat([y, m.g(m.decode(y, mem)[:, -1]).argmax(-1, keepdim=True)], 1)
