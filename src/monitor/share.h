// Shares a calibration among the ranks of a run through the run directory, for jobs that have no
// better way. Rank 0 writes its calibration, with a number that grows while it lives. The others
// look now and then. Nobody waits. The background thread uses this.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "mfu/measure.h"
#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

class CalibrationShare {
 public:
  static constexpr std::chrono::seconds kBeat{2};
  static constexpr std::chrono::seconds kSilence{60};  // after this rank 0 is assumed dead

  CalibrationShare(const std::string& directory, std::uint32_t rank, const Clock& clock);

  // Rank 0: writes the newest calibration, if it is new or if a sign of life is due.
  Result<void> publish(const Calibration& calibration);
  // Rank 0, at its end: the calibration stays valid, and no rank should report rank 0 as lost.
  Result<void> end();

  // Another rank: a calibration that it does not have yet. One that was there before it started
  // counts only after a sign of life of its writer, because it may come from an earlier run.
  std::optional<Calibration> news();
  // True once, when rank 0 has been silent for too long.
  bool lost();

  bool leads() const { return leads_; }
  bool heard() const { return alive_; }  // whether rank 0 gave a sign of life in this directory

 private:
  std::string text(const Calibration& calibration, bool ended) const;

  std::string path_;
  const Clock& clock_;
  bool leads_;
  Calibration last_;
  std::uint64_t beat_ = 0;
  std::optional<std::uint64_t> seen_beat_;
  bool alive_ = false, ended_ = false, said_ = false;
  std::chrono::nanoseconds heard_, next_{};
};

}  // namespace mfu
