// A calibration shared by the ranks of a run through its directory, where the job has nothing
// better: rank 0 writes what it calibrated, with a number that grows while it lives; the others
// look now and then. Nobody waits for anybody. Used by the background thread.
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
  static constexpr std::chrono::seconds kSilence{60};  // then rank 0 is taken to be gone

  CalibrationShare(const std::string& directory, std::uint32_t rank, const Clock& clock);

  // Rank 0: the newest calibration, where a beat is due or it is a new one.
  Result<void> publish(const Calibration& calibration);
  // Rank 0, at its end: what stands there holds, nobody is missed.
  Result<void> end();

  // Another rank: a calibration it does not have yet. One that stood there before counts only once
  // its writer gave a sign of life: it may be an earlier run's.
  std::optional<Calibration> news();
  // True once, where rank 0 was silent for too long.
  bool lost();

  bool leads() const { return leads_; }
  bool heard() const { return alive_; }  // of rank 0, in this directory

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
