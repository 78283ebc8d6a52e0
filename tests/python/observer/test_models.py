"""Which model a pass belongs to, if the weights it uses are not the model's own parameter tensors."""

import pytest
from test_manners import run_program

BEGIN = """
import torch
from torch import nn
from mfu import _observer
_observer.start(region_folder="")
torch.manual_seed(0)

class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.to(g.dtype), g.t() @ x.to(g.dtype)

class ByFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 8))

    def forward(self, x):
        return Product.apply(x, self.weight)

def train(model, x):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model.train()
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                y = model(x)
            y.float().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        evaluate(model, x)
"""
END = """
for (phase, number), row in sorted(_observer.phases(settle=True).items()):
    if row["passes"]:
        print(phase, row["model"], row["passes"], row["samples"], sep=":", end=" ")
"""
PLAIN = """
def evaluate(model, x):
    with torch.no_grad():
        model(x)
        model(x)
"""
# No gradient comes back to these, although autograd keeps them.
WITH_GRAD = """
def evaluate(model, x):
    model(x)
    model(x)
"""
LAYER, IMAGES = "train(nn.Linear(8, 4), torch.randn(5, 8))", "train(nn.Conv2d(3, 4, 3), torch.randn(5, 3, 6, 6))"
FUNCTION = "train(ByFunction(), torch.randn(5, 8))"


@pytest.fixture(params=[PLAIN, WITH_GRAD], ids=["plain", "with_grad"])
def evaluate(request):
    return request.param


@pytest.mark.parametrize("program, name", [(LAYER, "Linear"), (IMAGES, "Conv2d")], ids=["layer", "images"])
def test_a_model_trained_under_autocast_and_validated_without_it_is_one(program, name, evaluate):
    said = run_program(BEGIN + evaluate + program + END).splitlines()[-1].split()
    assert said == [f"train:{name}:6:30", f"validation:{name}:4:20"]


def test_a_custom_function_casts_where_autograd_does_not_see_it():
    said = run_program(BEGIN + PLAIN + FUNCTION + END).splitlines()[-1].split()
    passes = [(each.split(":")[0], int(each.split(":")[2])) for each in said]
    assert sum(count for phase, count in passes if phase == "train") == 6
    assert sum(count for phase, count in passes if phase == "validation") == 4 and len(dict(passes)) == 2


PREFIX = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(40, 8), nn.Linear(8, 24), nn.Linear(8, 40)
        self.prefix = nn.Parameter(torch.randn(2, 1, 2, 3, 4))  # keys and values of three tokens that are learned

    def forward(self, ids):
        batch, length = ids.shape
        query, key, value = self.mix(self.table(ids)).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        prefix = self.prefix.expand(-1, batch, -1, -1, -1)
        key, value = (torch.cat(each, 2) for each in ((prefix[0], key), (prefix[1], value)))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.head(mixed.transpose(1, 2).reshape(batch, length, 8))

model, ids = Model(), torch.randint(40, (2, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for training in (True, True, False):
    model.train(training)
    with torch.set_grad_enabled(training):
        logits = model(ids)
        time.sleep(PAUSE)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
    if training:
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("pause", [0, 0.25], ids=["at_once", "late"])
def test_learned_keys_are_no_cache_where_a_loss_is_met(pause):
    program = PREFIX.replace("PAUSE", str(pause))
    said = run_program(BEGIN + "import time\n" + program + END).splitlines()[-1].split()
    assert said == ["train:Model:2:4", "validation:Model:1:2"]
