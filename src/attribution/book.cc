#include "attribution/book.h"

#include <algorithm>
#include <cmath>

namespace mfu {

template <typename Part>
void Book::by_step(std::int64_t from_ns, std::int64_t to_ns, Part part) {
  while (from_ns < to_ns) {
    while (at_ + 1 < steps_.size() && steps_[at_].end_ns <= from_ns) ++at_;
    std::int64_t cut_ns = at_ + 1 < steps_.size() ? std::min(to_ns, steps_[at_].end_ns) : to_ns;
    part(at_, cut_ns - from_ns);
    from_ns = cut_ns;
  }
}

void Book::charge(std::int64_t from_ns, std::int64_t to_ns, LedgerLine line) {
  by_step(from_ns, to_ns,
          [&](std::size_t step, std::int64_t ns) { steps_[step].ledger[line] += ns; });
}

void Book::charge_matmul(std::int64_t from_ns, std::int64_t to_ns, std::uint32_t call) {
  by_step(from_ns, to_ns, [&](std::size_t step, std::int64_t ns) {
    std::uint32_t number = static_cast<std::uint32_t>(step);
    steps_[step].ledger[LedgerLine::matmul_below_peak] += ns;
    if (!pieces_.empty() && pieces_.back().call == call && pieces_.back().step == number) {
      pieces_.back().ns += ns;
    } else {
      pieces_.push_back({call, number, ns});
    }
  });
}

void Book::settle(RankPart& part, Peaks& peaks) {
  for (PartCall& call : part.calls) call.attributed_ns = 0;
  for (const Piece& piece : pieces_) part.calls[piece.call].attributed_ns += piece.ns;
  std::vector<double> at_peak(steps_.size());
  std::vector<double> flop(steps_.size());
  for (const Piece& piece : pieces_) {
    const PartCall& call = part.calls[piece.call];
    double attributed = static_cast<double>(call.attributed_ns);
    // A call that is faster than its peak allows is a contradiction. All of its time is at peak,
    // but not more.
    double share = std::min(1.0, peaks.ideal_ns(part, call).value_or(0) / attributed);
    at_peak[piece.step] += share * static_cast<double>(piece.ns);
    flop[piece.step] += part.costs[call.cost].model_flop.to_double() * call.inside *
                        static_cast<double>(piece.ns) / attributed;
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    std::int64_t& below = steps_[i].ledger[LedgerLine::matmul_below_peak];
    std::int64_t peak_ns = std::min<std::int64_t>(std::llround(at_peak[i]), below);
    steps_[i].ledger[LedgerLine::matmul_at_peak] = peak_ns;
    below -= peak_ns;
    steps_[i].model_flop = FlopCount::from_wide(static_cast<Uint128>(std::round(flop[i])));
  }
}

}  // namespace mfu
