#include <gtest/gtest.h>

#include "base/json.h"
#include "mfu/sink.h"

namespace mfu {
namespace {

TEST(Numbers, have_four_digits_thousands_and_their_unit) {
  EXPECT_EQ(rate_text({989.4e12}, Precision::bf16), "989.4 TFLOP/s");
  EXPECT_EQ(rate_text({1978.9e12}, Precision::int8), "1,979 TOP/s");
  EXPECT_EQ(rate_text({207.36e9}, Precision::fp32), "207.4 GFLOP/s");
  EXPECT_EQ(rate_text({10066.3e12}, Precision::fp4), "10,066 TFLOP/s");
  EXPECT_EQ(rate_text({2e12}, Precision::fp32), "2 TFLOP/s");
  EXPECT_EQ(bandwidth_text({3.35e12}), "3.35 TB/s");
  EXPECT_EQ(bytes_text({80'000'000'000}), "80 GB");
  EXPECT_EQ(bytes_text({0}), "0 B");
}

TEST(PeakJson, has_the_keys_scripts_rely_on_and_unknown_is_null) {
  Device device;
  device.name = "Z9";
  device.kind = "gpu";
  Peak peak;
  peak.precision = Precision::bf16;
  peak.accumulate = "fp32";
  peak.rate = {123.4e12};
  peak.source = "a \"sheet\"";
  device.peaks = {peak};
  Json json = parse_json(to_json(report_devices({device})), "x").value();
  EXPECT_EQ(*json.find("schema")->string(), "mfu.peak/1");
  const Json& first = json.find("devices")->elements().at(0);
  EXPECT_TRUE(first.find("device")->find("memory_bytes")->is(Json::Kind::null));
  const Json& row = first.find("peaks")->elements().at(0);
  EXPECT_EQ(*row.find("dtype")->string(), "bf16");
  EXPECT_EQ(*row.find("sparsity")->string(), "dense");
  EXPECT_EQ(row.find("flop_per_s")->raw_number(), "123400000000000");
  EXPECT_EQ(*row.find("source")->string(), "a \"sheet\"");
  EXPECT_TRUE(first.find("measured_bandwidth_bytes_per_s")->is(Json::Kind::null));
}

TEST(ErrorJson, carries_code_and_message) {
  EXPECT_EQ(to_json(Error{ErrorCode::not_found, "no"}),
            R"({"schema":"mfu.error/1","code":"not_found","message":"no"})");
}

}  // namespace
}  // namespace mfu
