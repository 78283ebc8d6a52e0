// Matrix multiplies by the libraries that frameworks call. The libraries are opened at run time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "mfu/hardware.h"
#include "mfu/result.h"

namespace mfu {

struct GemmShape {
  std::size_t m = 0, n = 0, k = 0;
  double flop() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// C = A × B, row-major, all rows adjacent, in one data type.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual std::string method() const = 0;  // "OpenBLAS sgemm"
  // Prepares for that shape. Fails with `unsupported` if the library or the processor cannot.
  virtual Result<void> prepare(const GemmShape& shape) = 0;
  virtual void run() = 0;
  // For tests: element (row, column) of the last product, with A(i,k) and B(k,j) as operand_a() and
  // operand_b().
  virtual double product_at(std::size_t row, std::size_t column) const = 0;
};

// Operands are small whole numbers, which every type holds exactly.
inline int operand_a(std::size_t row, std::size_t column) {
  return static_cast<int>((row * 3 + column * 5) % 7);
}
inline int operand_b(std::size_t row, std::size_t column) {
  return static_cast<int>((row * 2 + column) % 5) - 2;
}

// Fails with `unsupported`, and says what to install, if the library is missing or lacks the type.
Result<std::unique_ptr<Gemm>> openblas_gemm(Precision precision, int threads);
Result<std::unique_ptr<Gemm>> onednn_gemm(Precision precision, int threads);

// Memory for a matrix of any element type, aligned as the libraries want it.
class MatrixStorage {
 public:
  explicit MatrixStorage(std::size_t bytes);
  void* data() const { return data_.get(); }

 private:
  struct Release {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Release> data_;
};

}  // namespace mfu
