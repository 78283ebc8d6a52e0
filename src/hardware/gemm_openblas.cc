#include <cstdlib>
#include <new>

#include "hardware/driver.h"
#include "hardware/gemm.h"

namespace mfu {

MatrixStorage::MatrixStorage(std::size_t bytes)
    : data_(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)) {
  MFU_ASSERT(data_ != nullptr);
}

void MatrixStorage::Release::operator()(void* data) const {
  std::free(data);
}

namespace {

constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;

// cblas_?gemm for one element type.
template <typename Element>
class OpenblasGemm final : public Gemm {
 public:
  using Function = void(int order, int transpose_a, int transpose_b, int m, int n, int k,
                        Element alpha, const Element* a, int lda, const Element* b, int ldb,
                        Element beta, Element* c, int ldc);

  OpenblasGemm(Function* function, std::string method)
      : function_(function), method_(std::move(method)) {}

  std::string method() const override { return method_; }

  Result<void> prepare(const GemmShape& shape) override {
    shape_ = shape;
    a_ = filled(shape.m, shape.k, operand_a);
    b_ = filled(shape.k, shape.n, operand_b);
    c_.assign(shape.m * shape.n, 0);
    return {};
  }

  void run() override {
    int m = static_cast<int>(shape_.m);
    int n = static_cast<int>(shape_.n);
    int k = static_cast<int>(shape_.k);
    function_(kRowMajor, kNoTranspose, kNoTranspose, m, n, k, 1, a_.data(), k, b_.data(), n, 0,
              c_.data(), n);
  }

  double product_at(std::size_t row, std::size_t column) const override {
    return static_cast<double>(c_[row * shape_.n + column]);
  }

 private:
  static std::vector<Element> filled(std::size_t rows, std::size_t columns,
                                     int (*value)(std::size_t, std::size_t)) {
    std::vector<Element> matrix(rows * columns);
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      matrix[i] = static_cast<Element>(value(i / columns, i % columns));
    }
    return matrix;
  }

  Function* function_;
  std::string method_;
  GemmShape shape_;
  std::vector<Element> a_, b_, c_;
};

template <typename Element>
Result<std::unique_ptr<Gemm>> make(const Library& library, const char* symbol, const char* method) {
  auto* function = library.symbol<typename OpenblasGemm<Element>::Function>(symbol);
  if (function == nullptr) {
    return fail(ErrorCode::unsupported, std::string("this OpenBLAS has no ") + symbol);
  }
  return std::unique_ptr<Gemm>(std::make_unique<OpenblasGemm<Element>>(function, method));
}

}  // namespace

Result<std::unique_ptr<Gemm>> openblas_gemm(Precision precision, int threads) {
  static const Library kLibrary("libopenblas.so.0");
  if (!kLibrary.open()) {
    return fail(ErrorCode::unsupported,
                "OpenBLAS is not installed (Debian: apt-get install libopenblas0-pthread)");
  }
  if (auto* set_threads = kLibrary.symbol<void(int)>("openblas_set_num_threads"))
    set_threads(threads);
  if (precision == Precision::fp64) return make<double>(kLibrary, "cblas_dgemm", "OpenBLAS dgemm");
  if (precision == Precision::fp32) return make<float>(kLibrary, "cblas_sgemm", "OpenBLAS sgemm");
  return fail(ErrorCode::unsupported,
              "OpenBLAS multiplies fp64 and fp32 only: no " + std::string(name_of(precision)));
}

}  // namespace mfu
