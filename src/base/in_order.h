// Sorts things that arrive nearly in order, without holding them all. A thing that is later than
// the window allows is passed on late. Things with equal keys keep their order.
//
//   Lateness late;
//   for (auto& each : once) late.see(each.key);
//   InOrder<Thing> order(late.window(), [&](Thing each) { use(each); });
//   for (auto& each : again) order.add(each.key, each);
//   order.finish();
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace mfu {

// Measures how far behind the newest key a key can arrive. Keys are nearly dense.
class Lateness {
 public:
  static constexpr std::uint64_t kMostWindow = 1u << 20;

  void see(std::uint64_t key) {
    newest_ = std::max(newest_, key);
    most_ = std::max(most_, newest_ - key);
  }
  std::size_t window() const {
    return static_cast<std::size_t>(std::min(most_, kMostWindow / 2) * 2 + 64);
  }

 private:
  std::uint64_t newest_ = 0, most_ = 0;
};

template <typename Thing>
class InOrder {
 public:
  InOrder(std::size_t window, std::function<void(Thing)> give)
      : window_(window), give_(std::move(give)) {}

  void add(std::uint64_t key, Thing thing) {
    held_.emplace_hint(held_.end(), key, std::move(thing));
    if (held_.size() > window_) give_first();
  }
  void finish() {
    while (!held_.empty()) give_first();
  }

 private:
  void give_first() {
    auto first = held_.extract(held_.begin());
    give_(std::move(first.mapped()));
  }
  std::size_t window_;
  std::function<void(Thing)> give_;
  std::multimap<std::uint64_t, Thing> held_;
};

}  // namespace mfu
