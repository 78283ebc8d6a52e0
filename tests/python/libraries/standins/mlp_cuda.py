"""csrc/mlp.cpp of NVIDIA/apex."""

import torch


def forward(use_bias, activation, inputs, /):
    return [torch.zeros(inputs[0].shape[0], inputs[len(inputs) // 2 if use_bias else -1].shape[0]), torch.zeros(1)]


def backward(use_bias, activation, grad_o, fprop_outputs, inputs, /):
    return [torch.zeros_like(each) for each in inputs]
