// A libtorch program that knows nothing of mfu: four steps of one matmul and its two gradients.
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/record_function.h>

int main() {
  at::Tensor x = at::randn({8, 16}), w = at::randn({16, 32}).requires_grad_(true);
  for (int step = 0; step < 4; ++step) {
    RECORD_USER_SCOPE("train step");
    at::Tensor y = at::mm(x, w);
    y.sum().backward();
  }
  return w.grad().numel() == 16 * 32 ? 0 : 1;
}
