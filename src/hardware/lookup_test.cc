#include <gtest/gtest.h>

#include <set>

#include "mfu/hardware.h"

namespace mfu {
namespace {

std::string found(std::string_view name) {
  Result<Device> device = find_device(Catalog::builtin(), name);
  return device.has_value() ? device->name : "";
}

std::set<std::string> matched(std::string_view name) {
  std::set<std::string> names;
  for (const Device& device : match_devices(Catalog::builtin(), name)) names.insert(device.name);
  return names;
}

TEST(Lookup, every_alias_finds_its_own_device_and_no_other) {
  for (const Device& device : Catalog::builtin().devices()) {
    EXPECT_EQ(found(device.name), device.name);
    for (const std::string& alias : device.aliases) EXPECT_EQ(found(alias), device.name) << alias;
  }
}

TEST(Lookup, names_resolve_as_drivers_print_them) {
  EXPECT_EQ(found("NVIDIA A100-SXM4-80GB"), "A100-SXM4-80GB");
  EXPECT_EQ(found("NVIDIA A100-PG509-200"), "A100-SXM4-40GB");
  EXPECT_EQ(found("Tesla V100-SXM2-32GB"), "V100-SXM2-32GB");
  EXPECT_NE(found("Tesla V100-DGXS-32GB"), "");
  EXPECT_EQ(found("AMD Instinct MI300X VF"), "MI300X");
  EXPECT_NE(found("NVIDIA GeForce RTX 2080 Ti"), "");
  EXPECT_EQ(found("NVIDIA B200"), "B200-SXM-180GB");
  EXPECT_EQ(found("TPU v5 lite"), "TPU v5e");
  EXPECT_EQ(found("AMD Instinct MI250X"), "MI250X (GCD)");
  EXPECT_EQ(found("nvidia_h100_80gb_hbm3"), "H100-SXM5-80GB");
}

TEST(Lookup, clouds_name_their_machines_and_slices) {
  for (const char* name : {"trn1", "trn1.32xlarge", "trn1n.32xlarge", "AWS Trainium"}) {
    EXPECT_EQ(found(name), "Trainium1") << name;
  }
  for (const char* name : {"trn2", "trn2u", "trn2.48xlarge"}) EXPECT_EQ(found(name), "Trainium2");
  EXPECT_EQ(found("inf2.48xlarge"), "Inferentia2");
  for (const char* name : {"v6e", "v6e-8", "TPU v6 lite", "ct6e-standard-4t", "tpu-v6e-slice"}) {
    EXPECT_EQ(found(name), "TPU v6e") << name;
  }
  EXPECT_EQ(found("TPU v7"), "TPU7x");
  EXPECT_EQ(found("GB200 NVL72"), "GB200 (per GPU)");
  EXPECT_EQ(found("NVIDIA GB300 NVL72"), "GB300 (per GPU)");
  EXPECT_EQ(found("Ascend 910"), "Ascend 910A");
  EXPECT_EQ(found("Ascend910B1"), "Ascend 910B1");
  EXPECT_EQ(found("Quadro GP100"), "Quadro GP100");
}

TEST(Lookup, a_brand_alone_is_no_device) {
  for (const char* name : {"RTX", "NVIDIA RTX", "GeForce RTX", "GTX", "Quadro RTX", "NVIDIA", ""}) {
    EXPECT_TRUE(matched(name).empty()) << name;
  }
  EXPECT_FALSE(matched("RTX 4090").empty());
}

TEST(Lookup, a_family_lists_its_forms_and_none_is_picked) {
  std::set<std::string> forms = matched("h100");
  EXPECT_TRUE(forms.contains("H100-SXM5-80GB"));
  EXPECT_TRUE(forms.contains("H100-PCIe-80GB"));
  EXPECT_TRUE(forms.contains("H100-NVL-94GB"));
  Result<Device> device = find_device(Catalog::builtin(), "h100");
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(device.error().message.find("H100-PCIe-80GB"), std::string::npos);
  EXPECT_GT(matched("H200").size(), 1u);
}

TEST(Lookup, words_are_whole_and_makers_are_not_mixed_up) {
  for (const std::string& name : matched("H20"))
    EXPECT_EQ(name.find("H200"), std::string::npos) << name;
  for (const std::string& name : matched("H200"))
    EXPECT_EQ(name.find("GH200"), std::string::npos) << name;
  for (const std::string& name : matched("B200"))
    EXPECT_EQ(name.find("GB200"), std::string::npos) << name;
  EXPECT_TRUE(matched("AMD H100").empty());
  EXPECT_TRUE(matched("H100 MI300X").empty());
  for (const char* stray :
       {"200", "80", "64", "one", "server", "active", "h", "80gb", "hbm3", "sxm4"}) {
    EXPECT_TRUE(matched(stray).empty()) << stray;
  }
  EXPECT_TRUE(matched("NVIDIA").empty());
  EXPECT_TRUE(matched("").empty());
  EXPECT_TRUE(matched(std::string(100000, 'h')).empty());
}

TEST(Lookup, what_is_not_there_gets_near_names_and_a_way_out) {
  Result<Device> device = find_device(Catalog::builtin(), "NVIDIA H1000");
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().code, ErrorCode::not_found);
  EXPECT_NE(device.error().message.find("H100"), std::string::npos);
  EXPECT_NE(device.error().message.find("--peak"), std::string::npos);
}

TEST(Lookup, a_mig_slice_has_its_share_of_the_peak) {
  Device whole = find_device(Catalog::builtin(), "NVIDIA A100-SXM4-40GB").value();
  Device slice = find_device(Catalog::builtin(), "NVIDIA A100-SXM4-40GB MIG 1g.5gb").value();
  // 14 of 108 multiprocessors: 312 x 14 / 108 = 40.444
  EXPECT_NEAR(slice.peak(Precision::bf16)->rate.per_s, 40.444e12, 0.001e12);
  EXPECT_EQ(slice.unit, "slice");
  EXPECT_EQ(slice.peak(Precision::bf16)->confidence, Confidence::derived);
  EXPECT_LT(slice.memory->count, whole.memory->count);
  EXPECT_EQ(find_device(Catalog::builtin(), "MI300X CPX")->units, 38u);
  EXPECT_FALSE(find_device(Catalog::builtin(), "NVIDIA A100-SXM4-40GB MIG 9g.1gb").has_value());
}

}  // namespace
}  // namespace mfu
