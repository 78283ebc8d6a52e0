"""Stable-Baselines3's DQN: it acts, and learns every fourth step from what it kept"""
NEEDS = ["stable_baselines3", "gymnasium"]
EXPECT = {"steps": 5, "phases": ["forward", "train"]}

from stable_baselines3 import DQN

DQN("MlpPolicy", "CartPole-v1", learning_starts=20, batch_size=16, train_freq=4, gradient_steps=1, seed=0,
    device="cpu", exploration_fraction=0.01, exploration_final_eps=0.0).learn(40)
