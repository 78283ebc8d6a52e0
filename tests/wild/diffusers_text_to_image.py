"""diffusers' train_text_to_image.py in small: VAE and text encoder frozen, the UNet trains, then samples"""

NEEDS = ["diffusers", "transformers"]
EXPECT = {"steps": 3, "phases": {"train": 3, "validation": 4, "forward": 6}}
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel, DDPMScheduler
from diffusers.training_utils import EMAModel
from transformers import CLIPTextConfig, CLIPTextModel

torch.manual_seed(0)
vae = AutoencoderKL(block_out_channels=(32,), norm_num_groups=8, latent_channels=4).requires_grad_(False)
text = CLIPTextModel(
    CLIPTextConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=16,
        bos_token_id=0,
        eos_token_id=1,
    )
).requires_grad_(False)
unet = UNet2DConditionModel(
    sample_size=8,
    block_out_channels=(32, 64),
    layers_per_block=1,
    norm_num_groups=8,
    cross_attention_dim=32,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=8,
)
unet.train()
ema = EMAModel(unet.parameters())
sched = DDPMScheduler()
opt = torch.optim.AdamW(unet.parameters())
for _ in range(3):
    px, ids = torch.randn(2, 3, 8, 8), torch.randint(2, 96, (2, 16))
    lat = vae.encode(px).latent_dist.sample() * 0.18215
    noise = torch.randn_like(lat)
    t = torch.randint(0, 1000, (2,))
    with torch.no_grad():
        cond = text(ids)[0]
    loss = torch.nn.functional.mse_loss(unet(sched.add_noise(lat, noise, t), t, cond).sample, noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    ema.step(unet.parameters())
unet.eval()
sched.set_timesteps(4)
x = torch.randn(2, 4, 8, 8)
with torch.no_grad():
    for t in sched.timesteps:
        x = sched.step(unet(x, t, cond).sample, t, x).prev_sample
    vae.decode(x / 0.18215)
