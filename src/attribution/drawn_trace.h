// For the tests: makes a trace from random bytes, five per event. Events may overlap, have no
// duration, and be launched twice or never.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "attribution/trace_text.h"

namespace mfu {

inline void draw_event(TraceText& text, std::span<const std::uint8_t> bytes, std::int64_t& now) {
  now += bytes[1] % 16;
  std::int64_t start = 1 + std::max<std::int64_t>(0, now - bytes[1] / 16);
  std::int64_t duration = bytes[2] % 32;
  int where = 1 + bytes[3] % 3;
  int correlation = bytes[4] % 16;
  switch (bytes[0] % 12) {
    case 0:
      return text.kernel("volta_sgemm_64x64", start, duration, where, correlation);
    case 1:
      return text.kernel("vectorized_elementwise_kernel", start, duration, where, correlation);
    case 2:
      return text.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", start, duration, where,
                         correlation);
    case 3:
      return text.copy(start, duration, where, correlation);
    case 4:
    case 5:
      return text.call("cudaLaunchKernel", start, duration, where, correlation);
    case 6:
      return text.call("cudaStreamSynchronize", start, duration, where, 100 + correlation);
    case 7:
      return text.mm(start, duration, where, 1 + bytes[4], 8, 8);
    case 8:
      return text.op("aten::item", start, duration, where);
    case 9:
      return text.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start,
                        duration, where);
    case 10:
      return text.frame("train.py(12): main", start, duration, where);
    default:
      return text.op("aten::add", start, duration, where);
  }
}

inline TraceText drawn_trace(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t kEvent = 5;
  constexpr std::size_t kMostEvents = 16;
  TraceText text;
  text.device_name = "";  // this does not test the catalogue
  std::int64_t now = 0;
  for (std::size_t i = 0; i < std::min(bytes.size() / kEvent, kMostEvents); ++i) {
    draw_event(text, bytes.subspan(i * kEvent, kEvent), now);
  }
  return text;
}

}  // namespace mfu
