"""apex/_extensions/mlp_cuda.py of NVIDIA/apex: the operator's lists are made by functions of Python."""

import torch


def forward(use_bias, activation, inputs):
    return [torch.zeros(inputs[0].shape[0], inputs[len(inputs) // 2 if use_bias else -1].shape[0])]


def backward(use_bias, activation, grad_o, fprop_outputs, inputs):
    return [torch.zeros_like(each) for each in inputs]
