"""Stable-Baselines3's A2C: five steps of four environments, then one of the optimizer"""
NEEDS = ["stable_baselines3", "gymnasium"]
EXPECT = {"steps": 3, "phases": ["forward", "train"]}

from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env

A2C("MlpPolicy", make_vec_env("CartPole-v1", 4, seed=0), n_steps=5, seed=0, device="cpu").learn(60)
