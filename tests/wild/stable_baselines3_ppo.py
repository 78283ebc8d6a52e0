"""Stable-Baselines3's PPO: rollouts are no validation"""
NEEDS = ["stable_baselines3", "gymnasium"]
EXPECT = {"phases": ["forward", "train"]}

from stable_baselines3 import PPO

PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu").learn(128)
