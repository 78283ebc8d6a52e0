// oneDNN's matmul primitive through its C interface, declared here. Versions 2 and 3 differ in how
// a primitive is described, not in how it runs. The tests run with 2.6 (Debian 12) and 3.7 (Debian
// 13).
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "hardware/driver.h"
#include "hardware/gemm.h"

namespace mfu {

namespace {

using Handle = void*;
constexpr int kDnnlSuccess = 0;
constexpr int kCpuEngine = 1;
constexpr int kInOrderStream = 1;
constexpr int kPlainRows = 3;  // dnnl_ab
constexpr int kSource = 1, kDestination = 17, kWeights = 33;
enum DataType { bf16_type = 2, fp32_type = 3, int32_type = 4, int8_type = 5, uint8_type = 6 };
using Dimensions = std::array<std::int64_t, 12>;

struct Argument {
  int number;
  Handle memory;
};

struct Types {
  DataType a, b, c;
};

std::optional<Types> types_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return Types{fp32_type, fp32_type, fp32_type};
    case Precision::bf16:
      return Types{bf16_type, bf16_type, fp32_type};
    case Precision::int8:
      return Types{uint8_type, int8_type, int32_type};
    default:
      return std::nullopt;
  }
}

// A description that the library fills. In version 2 it is a struct with its own size, in version 3
// a handle.
struct Description {
  alignas(64) unsigned char bytes[8192] = {};
};

class OnednnGemm final : public Gemm {
 public:
  OnednnGemm(const Library& library, Types types, std::string method)
      : library_(library), types_(types), method_(std::move(method)) {}
  ~OnednnGemm() override {
    release();
    destroy("dnnl_stream_destroy", stream_);
    destroy("dnnl_engine_destroy", engine_);
  }
  OnednnGemm(const OnednnGemm&) = delete;
  OnednnGemm& operator=(const OnednnGemm&) = delete;

  std::string method() const override { return method_; }

  Result<void> prepare(const GemmShape& shape) override {
    release();
    shape_ = shape;
    if (engine_ == nullptr &&
        (!call("dnnl_engine_create", &engine_, kCpuEngine, std::size_t{0}) ||
         !call("dnnl_stream_create", &stream_, engine_, unsigned{kInOrderStream}))) {
      return fail(ErrorCode::unsupported, "oneDNN has no CPU engine here");
    }
    if (!describe_and_create()) {
      return fail(ErrorCode::unsupported,
                  method_ + " is not supported by this oneDNN on this processor");
    }
    return {};
  }

  void run() override {
    Argument arguments[] = {
        {kSource, memories_[0]}, {kWeights, memories_[1]}, {kDestination, memories_[2]}};
    call("dnnl_primitive_execute", primitive_, stream_, 3, static_cast<const Argument*>(arguments));
    call("dnnl_stream_wait", stream_);
  }

  double product_at(std::size_t row, std::size_t column) const override {
    const void* cell =
        static_cast<const char*>(storages_[2]->data()) + (row * shape_.n + column) * 4;
    if (types_.c == int32_type) {
      std::int32_t value;
      std::memcpy(&value, cell, sizeof value);
      return value;
    }
    float value;
    std::memcpy(&value, cell, sizeof value);
    return static_cast<double>(value);
  }

 private:
  template <typename... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    auto* function = library_.symbol<int(Arguments...)>(name);
    return function != nullptr && function(arguments...) == kDnnlSuccess;
  }

  void destroy(const char* name, Handle& handle) {
    if (handle != nullptr) call(name, handle);
    handle = nullptr;
  }

  void release() {
    destroy("dnnl_primitive_destroy", primitive_);
    destroy("dnnl_primitive_desc_destroy", description_);
    for (Handle& memory : memories_) destroy("dnnl_memory_destroy", memory);
  }

  bool version_3() const {
    return library_.symbol<int()>("dnnl_matmul_primitive_desc_create") != nullptr;
  }

  bool describe_and_create() {
    const std::array<std::pair<std::size_t, std::size_t>, 3> sizes = {
        {{shape_.m, shape_.k}, {shape_.k, shape_.n}, {shape_.m, shape_.n}}};
    const std::array<DataType, 3> types = {types_.a, types_.b, types_.c};
    std::array<Handle, 3> described = {};
    for (std::size_t i = 0; i < 3; ++i) {
      described[i] = describe_matrix(i, sizes[i].first, sizes[i].second, types[i]);
      if (described[i] == nullptr) return false;
      storages_[i] = std::make_unique<MatrixStorage>(sizes[i].first * sizes[i].second * 4);
      if (!call("dnnl_memory_create", &memories_[i], static_cast<const void*>(described[i]),
                engine_, storages_[i]->data())) {
        return false;
      }
    }
    fill(0, shape_.m, shape_.k, types_.a, operand_a);
    fill(1, shape_.k, shape_.n, types_.b, operand_b);
    return create_primitive(described);
  }

  Handle describe_matrix(std::size_t which, std::size_t rows, std::size_t columns, DataType type) {
    Dimensions dimensions = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
    if (version_3()) {
      Handle made = nullptr;
      bool good = call("dnnl_memory_desc_create_with_tag", &made, 2,
                       static_cast<const std::int64_t*>(dimensions.data()), int{type}, kPlainRows);
      return good ? made : nullptr;
    }
    void* bytes = matrices_[which].bytes;
    bool good = call("dnnl_memory_desc_init_by_tag", bytes, 2,
                     static_cast<const std::int64_t*>(dimensions.data()), int{type}, kPlainRows);
    return good ? bytes : nullptr;
  }

  bool create_primitive(const std::array<Handle, 3>& matrices) {
    const void* none = nullptr;
    auto fixed = [&](std::size_t i) { return static_cast<const void*>(matrices[i]); };
    bool described = false;
    if (version_3()) {
      described = call("dnnl_matmul_primitive_desc_create", &description_, engine_, fixed(0),
                       fixed(1), none, fixed(2), none);
    } else {
      Description operation;
      described = call("dnnl_matmul_desc_init", static_cast<void*>(operation.bytes), fixed(0),
                       fixed(1), none, fixed(2)) &&
                  call("dnnl_primitive_desc_create", &description_,
                       static_cast<const void*>(operation.bytes), none, engine_, none);
    }
    return described &&
           call("dnnl_primitive_create", &primitive_, static_cast<const void*>(description_));
  }

  void fill(std::size_t which, std::size_t rows, std::size_t columns, DataType type,
            int (*value)(std::size_t, std::size_t)) {
    char* data = static_cast<char*>(storages_[which]->data());
    for (std::size_t i = 0; i < rows * columns; ++i) {
      int number = value(i / columns, i % columns);
      float real = static_cast<float>(number);
      std::uint32_t bits;
      std::memcpy(&bits, &real, 4);
      std::uint16_t upper = static_cast<std::uint16_t>(bits >> 16);  // bf16 is a float's upper half
      if (type == fp32_type) std::memcpy(data + i * 4, &real, 4);
      if (type == bf16_type) std::memcpy(data + i * 2, &upper, 2);
      if (type == int8_type || type == uint8_type) data[i] = static_cast<char>(number);
    }
  }

  const Library& library_;
  Types types_;
  std::string method_;
  GemmShape shape_;
  Handle engine_ = nullptr;
  Handle stream_ = nullptr;
  Handle description_ = nullptr;
  Handle primitive_ = nullptr;
  std::array<Handle, 3> memories_ = {};
  std::array<Description, 3> matrices_;
  std::array<std::unique_ptr<MatrixStorage>, 3> storages_;
};

// Distributions give it different names: libdnnl.so.3, or libdnnl.so.3.6 on Debian 13. The
// functions that are called above are the same in every minor version of 3.
Library installed_onednn() {
  constexpr int kNewestMinor = 31;
  for (int minor = kNewestMinor; minor >= 0; --minor) {
    Library versioned(fmt::format("libdnnl.so.3.{}", minor));
    if (versioned.open()) return versioned;
  }
  Library newer("libdnnl.so.3");
  return newer.open() ? newer : Library("libdnnl.so.2");
}

}  // namespace

Result<std::unique_ptr<Gemm>> onednn_gemm(Precision precision, int threads) {
  static const Library kLibrary = installed_onednn();
  if (!kLibrary.open()) {
    return fail(ErrorCode::unsupported,
                "oneDNN is not installed (Debian 12: apt-get install libdnnl2; 13: libdnnl3.6)");
  }
  auto types = types_of(precision);
  if (!types) {
    return fail(ErrorCode::unsupported, "oneDNN multiplies fp32, bf16 and int8 here: no " +
                                            std::string(name_of(precision)));
  }
  if (auto* set_threads = kLibrary.symbol<void(int)>("omp_set_num_threads")) set_threads(threads);
  return std::unique_ptr<Gemm>(std::make_unique<OnednnGemm>(
      kLibrary, *types, fmt::format("oneDNN matmul {}", name_of(precision))));
}

}  // namespace mfu
