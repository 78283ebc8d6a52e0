#include "mfu/ops.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <sstream>

#include "ops/formulas.h"
#include "ops/request.h"

namespace mfu {
namespace {

Result<OperatorCost> cost(std::string_view name, ArgumentList& arguments) {
  const Operator* op = find_operator(name);
  if (op == nullptr) return fail(ErrorCode::not_found, std::string(name));
  return cost_of(*op, arguments.view());
}

TEST(Ops, every_row_is_unique_and_says_what_it_needs) {
  std::set<std::string_view> names;
  for (const Operator& op : all_operators()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(find_operator(op.name), &op);
    bool counts = op.role == OperatorRole::leaf || op.role == OperatorRole::cover;
    EXPECT_TRUE(!counts || op.formula != nullptr) << op.name;
    EXPECT_TRUE(op.role != OperatorRole::uncounted || !op.note.empty()) << op.name;
  }
  EXPECT_GT(names.size(), 200u);
}

TEST(Ops, overloads_and_in_place_forms_share_a_row) {
  const Operator* addmm = find_operator("aten::addmm");
  ASSERT_NE(addmm, nullptr);
  EXPECT_EQ(find_operator("aten::addmm.out"), addmm);
  EXPECT_EQ(find_operator("aten::addmm_"), addmm);
  EXPECT_NE(find_operator("aten::addmm.dtype"), nullptr);
  EXPECT_NE(find_operator("aten::addmm.dtype"), addmm);
  EXPECT_EQ(find_operator("aten::conv_transpose2d.input")->role, OperatorRole::wrapper);
  for (std::string_view name : {"", ".", "_", "aten::", "aten::relu", "aten::mm2", "mm"}) {
    EXPECT_EQ(find_operator(name), nullptr) << name;
  }
}

TEST(Ops, element_types_as_everyone_spells_them) {
  for (std::string_view name : {"c10::BFloat16", "BFloat16", "torch.bfloat16", "bf16"}) {
    EXPECT_EQ(parse_element_type(name), ElementType::bf16) << name;
  }
  EXPECT_EQ(parse_element_type("float"), ElementType::fp32);
  EXPECT_EQ(parse_element_type("long int"), ElementType::int64);
  EXPECT_EQ(parse_element_type("c10::Float8_e5m2fnuz"), ElementType::fp8);
  EXPECT_EQ(parse_element_type("c10::complex<float>"), ElementType::complex64);
  EXPECT_EQ(parse_element_type("Scalar"), ElementType::unknown);
  EXPECT_EQ(element_type_of_torch(15), ElementType::bf16);
  EXPECT_EQ(element_type_of_torch(-1), ElementType::unknown);
  EXPECT_EQ(element_type_of_torch(1 << 20), ElementType::unknown);
  EXPECT_FALSE(bytes_of(ElementType::unknown));
  for (std::size_t i = 0; i + 1 < kElementTypeCount; ++i) {
    auto type = static_cast<ElementType>(i);
    EXPECT_EQ(parse_element_type(name_of(type)), type);
    EXPECT_TRUE(bytes_of(type));
  }
}

TEST(Ops, an_example_with_its_bytes) {
  ArgumentList arguments;
  arguments.add_tensor(ElementType::bf16, {128, 256});
  arguments.add_tensor(ElementType::bf16, {256, 512});
  auto found = cost("aten::mm", arguments);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->hardware_flop, FlopCount(2 * 128 * 256 * 512));
  EXPECT_EQ(found->read_bytes, 2u * (128 * 256 + 256 * 512));
  EXPECT_EQ(found->written_bytes, 2u * 128 * 512);
  EXPECT_EQ(found->compute_type, ElementType::bf16);
}

TEST(Ops, arguments_as_kineto_writes_them) {
  ArgumentList list;
  std::array<std::int64_t, 2> sizes{4, 8};
  list.add_recorded("c10::Half", sizes, "");
  list.add_recorded("", {}, "");
  list.add_recorded("ScalarList", {}, "[1, -2]");
  list.add_recorded("ScalarList", {}, "[True, False]");
  list.add_recorded("Scalar", {}, "True");
  list.add_recorded("Scalar", {}, "64");
  list.add_recorded("Scalar", {}, "0.");
  list.add_recorded("Scalar", {}, "");
  list.add_recorded("GenericList", {}, "");
  list.add_recorded("ScalarList", {}, "[1, oops");
  list.add_recorded("ScalarList", {}, "[,,]");
  list.add_recorded("TensorList", {}, "");
  auto view = list.view();
  EXPECT_EQ(view[0].kind, Argument::Kind::tensor);
  EXPECT_EQ(view[0].type, ElementType::fp16);
  EXPECT_EQ(view[0].integers[1], 8);
  EXPECT_EQ(view[1].kind, Argument::Kind::absent);
  EXPECT_EQ(view[2].integers[1], -2);
  EXPECT_EQ(view[3].integers[0], 1);
  EXPECT_EQ(view[4].kind, Argument::Kind::boolean);
  EXPECT_EQ(view[5].integers[0], 64);
  EXPECT_EQ(view[6].kind, Argument::Kind::number);
  for (std::size_t i : {7u, 8u, 9u, 10u}) EXPECT_EQ(view[i].kind, Argument::Kind::unknown) << i;
  EXPECT_EQ(view[11].kind, Argument::Kind::tensor_list);
  list.clear();
  EXPECT_TRUE(list.view().empty());
}

TEST(Ops, an_old_trace_without_concrete_inputs) {
  ArgumentList list;
  std::array<std::int64_t, 4> input{32, 3, 224, 224}, weight{64, 3, 7, 7}, output{32, 64, 112, 112};
  list.add_recorded("float", input, "");
  list.add_recorded("float", weight, "");
  for (int i = 0; i < 3; ++i) list.add_recorded("GenericList", {}, "");
  auto forward = cost("aten::cudnn_convolution", list);
  ASSERT_FALSE(forward);
  EXPECT_EQ(forward.error().code, ErrorCode::unsupported);
  EXPECT_NE(forward.error().message.find("aten::cudnn_convolution"), std::string::npos);
  EXPECT_NE(forward.error().message.find("stride"), std::string::npos);

  list.clear();  // backward needs no stride; without a mask of wanted gradients it counts both
  list.add_recorded("float", input, "");
  list.add_recorded("float", output, "");
  list.add_recorded("float", weight, "");
  for (int i = 0; i < 8; ++i) list.add_recorded("GenericList", {}, "");
  auto backward = cost("aten::cudnn_convolution_backward", list);
  ASSERT_TRUE(backward) << backward.error().message;
  EXPECT_EQ(backward->hardware_flop, FlopCount(2) * 2u * 32u * (64 * 3 * 49) * (112u * 112));
  EXPECT_EQ(backward->assumption, Assumption::gradients_all);
  EXPECT_FALSE(name_of(backward->assumption).empty());
}

TEST(Ops, shapes_that_contradict_each_other) {
  auto code = [](std::string_view name, ArgumentList& list) {
    auto found = cost(name, list);
    return found ? std::string("counted") : std::string(name_of(found.error().code));
  };
  ArgumentList list;
  list.add_tensor(ElementType::fp32, {4, 8});
  list.add_tensor(ElementType::fp32, {9, 3});
  EXPECT_EQ(code("aten::mm", list), "malformed");
  list.clear();
  list.add_tensor(ElementType::fp32, {4, -8});
  list.add_tensor(ElementType::fp32, {-8, 3});
  EXPECT_EQ(code("aten::mm", list), "malformed");
  list.clear();
  constexpr std::int64_t kHuge = std::int64_t{1} << 39;
  list.add_tensor(ElementType::fp32, {kHuge, kHuge});
  list.add_tensor(ElementType::fp32, {kHuge, 3});
  EXPECT_EQ(code("aten::mm", list), "malformed");
  list.clear();
  EXPECT_EQ(code("aten::mm", list), "unsupported");
  list.add_absent();
  list.add_unknown();
  EXPECT_EQ(code("aten::mm", list), "unsupported");
}

// Any operator with any arguments gives an answer or an error that names it, never a crash.
TEST(Ops, whatever_the_arguments_are) {
  std::mt19937_64 random(20);
  auto pick = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  constexpr std::int64_t kOdd[] = {-1,
                                   0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   64,
                                   std::int64_t{1} << 40,
                                   std::int64_t{1} << 62,
                                   std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()};
  std::size_t counted = 0;
  for (int round = 0; round < 100; ++round) {
    for (const Operator& op : all_operators()) {
      ArgumentList list;
      for (std::int64_t i = pick(28); i > 0; --i) {
        std::vector<std::int64_t> values;
        bool odd = pick(8) == 0;
        for (std::int64_t j = pick(6); j > 0; --j) values.push_back(odd ? kOdd[pick(11)] : pick(5));
        std::int64_t one = odd ? kOdd[pick(11)] : pick(3);
        switch (pick(8)) {
          case 0:
            list.add_absent();
            break;
          case 1:
            list.add_integers(values);
            break;
          case 2:
            list.add_integer(one);
            break;
          case 3:
            list.add_boolean(one > 0);
            break;
          case 4:
            list.add_tensor(static_cast<ElementType>(pick(19)), values, values);
            break;
          case 5:
            list.add_recorded("ScalarList", {}, "[1, 2]");
            break;
          default:
            list.add_tensor(ElementType::fp32, values);
            break;
        }
      }
      auto found = cost_of(op, list.view());
      if (found) ++counted;
      EXPECT_TRUE(found || found.error().message.starts_with(op.name));
    }
  }
  EXPECT_GT(counted, 300u);
}

TEST(Ops, fused_attention_names_its_assumption) {
  ArgumentList list;
  for (int i = 0; i < 3; ++i) list.add_tensor(ElementType::bf16, {2, 4, 16, 8});
  list.add_number(0);
  list.add_unknown();
  auto found = cost("aten::_scaled_dot_product_flash_attention", list);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->assumption, Assumption::causal_unknown);
  EXPECT_EQ(found->hardware_flop, FlopCount(4 * 2 * 4 * 16 * 16 * 8));
}

// Two requests in 8 tokens of 4 heads and width 16: one brings its prompt of 7, causal, 28 pairs;
// one decodes its 10th token, 10 pairs. 38 pairs × 4 heads × 2 × (16 + 16) = 9,728.
TEST(Ops, a_paged_attention_has_the_lengths_of_its_requests) {
  ArgumentList arguments;
  for (int i = 0; i < 4; ++i) {  // query, caches of keys and values, output
    bool cache = i == 1 || i == 2;
    if (cache) arguments.add_tensor(ElementType::fp32, {64, 2, 16, 16});
    if (!cache) arguments.add_tensor(ElementType::fp32, {8, 4, 16});
  }
  std::int64_t starts[] = {0, 7, 8}, keys[] = {7, 10}, three[] = {3}, two[] = {2};
  arguments.add_tensor(ElementType::int32, three, starts);
  arguments.add_tensor(ElementType::int32, two, keys);
  arguments.add_number(0.25);
  arguments.add_boolean(true);
  arguments.add_absent();
  arguments.add_integer(-1);
  auto found = cost("_C::cpu_attention_with_kv_cache", arguments);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->model_flop, FlopCount(9728));
}

// [8, 16] × a packed [16, 24]: 2·8·16·24 = 6,144.
TEST(Ops, a_packed_weight_is_as_wide_as_the_output_it_is_written_to) {
  ArgumentList arguments;
  arguments.add_tensor(ElementType::fp32, {8, 24});
  arguments.add_tensor(ElementType::fp32, {8, 16});
  arguments.add_absent();
  arguments.add_tensor(ElementType::int64, {1});
  auto found = cost("_C::onednn_mm", arguments);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->hardware_flop, FlopCount(6144));
}

TEST(Ops, golden_lines_of_torch) {
  std::ifstream file(std::filesystem::path(MFU_SOURCE_DIR) / "src/ops/golden.jsonl");
  std::string line;
  std::size_t lines = 0;
  while (std::getline(file, line)) {
    auto request = parse_json(line, "golden.jsonl");
    ASSERT_TRUE(request) << request.error().message;
    ArgumentList arguments;
    for (const Json& value : request->find("arguments")->elements()) add(arguments, value);
    auto found = cost(*request->find("operator")->string(), arguments);
    ASSERT_TRUE(found) << found.error().message << '\n' << line;
    EXPECT_EQ(found->hardware_flop, FlopCount(*request->find("flop")->count())) << line;
    ++lines;
  }
  EXPECT_GT(lines, 90u);
}

// TraceLens adds m·n for a bias; the products equal ours.
TEST(Ops, shapes_of_real_traces) {
  std::filesystem::path path =
      std::filesystem::path(MFU_SHARED_DIR) / "traces/expected/tracelens_gemm_tflops.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::size_t rows = 0;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::vector<std::string> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    std::int64_t m = std::stoll(row[2]), n = std::stoll(row[3]), k = std::stoll(row[4]);
    std::int64_t b = std::stoll(row[5]);
    ArgumentList arguments;
    bool batched = row[1] == "aten::bmm", biased = row[1] == "aten::addmm";
    if (biased) arguments.add_tensor(ElementType::fp32, {n});
    if (batched) {
      arguments.add_tensor(ElementType::fp32, {b, m, k});
      arguments.add_tensor(ElementType::fp32, {b, k, n});
    } else {
      arguments.add_tensor(ElementType::fp32, {m, k});
      arguments.add_tensor(ElementType::fp32, {k, n});
    }
    auto found = cost(row[1], arguments);
    ASSERT_TRUE(found) << line;
    double gflop =
        (found->hardware_flop.to_double() + (biased ? static_cast<double>(m * n) : 0)) / 1e9;
    EXPECT_NEAR(gflop, std::stod(row[8]), 1e-6) << line;
    ++rows;
  }
  EXPECT_GT(rows, 50u);
}

}  // namespace
}  // namespace mfu
