#include "monitor/share.h"

#include "base/file.h"
#include "base/json.h"

namespace mfu {

namespace {

bool same(const Calibration& a, const Calibration& b) {
  return a.linear == b.linear && a.quadratic == b.quadratic && a.square == b.square &&
         a.step == b.step && a.readings == b.readings && a.apart == b.apart;
}

bool flag(const Json& json, std::string_view name) {
  const Json* found = json.find(name);
  return found != nullptr && found->boolean().value_or(false);
}

Calibration calibration_of(const Json& json) {
  Calibration made;
  made.linear = json.number_at("linear").value_or(1);
  made.quadratic = json.number_at("quadratic").value_or(1);
  made.square = flag(json, "square");
  made.step = json.count_at("step").value_or(0);
  made.readings = static_cast<std::uint32_t>(json.count_at("readings").value_or(0));
  made.apart = flag(json, "terms_apart");
  made.least_share = json.number_at("least_share").value_or(0);
  made.most_share = json.number_at("most_share").value_or(0);
  return made;
}

}  // namespace

CalibrationShare::CalibrationShare(const std::string& directory, std::uint32_t rank,
                                   const Clock& clock)
    : path_(directory + "/calibration-rank0.json"),
      clock_(clock),
      leads_(rank == 0),
      heard_(clock.now()) {
  // The count starts at the time of day, so that the first beat of a second run is newer than all
  // beats of the first.
  if (leads_) beat_ = static_cast<std::uint64_t>(clock.since_1970().count() / 1'000'000);
}

std::string CalibrationShare::text(const Calibration& calibration, bool ended) const {
  JsonWriter json;
  json.begin_object();
  json.member("schema", "mfu.calibration/1");
  json.member("beat", beat_);
  json.member("ended", ended);
  json.member("linear", calibration.linear);
  json.member("quadratic", calibration.quadratic);
  json.member("square", calibration.square);
  json.member("terms_apart", calibration.apart);
  json.member("step", calibration.step);
  json.member("readings", static_cast<std::uint64_t>(calibration.readings));
  json.member("least_share", calibration.least_share);
  json.member("most_share", calibration.most_share);
  json.end_object();
  return json.text() + "\n";
}

Result<void> CalibrationShare::publish(const Calibration& calibration) {
  std::chrono::nanoseconds now = clock_.now();
  if (same(calibration, last_) && now < next_) return {};
  next_ = now + kBeat;
  last_ = calibration;
  ++beat_;
  return write_file(path_, text(last_, false));
}

Result<void> CalibrationShare::end() {
  ++beat_;
  return write_file(path_, text(last_, true));
}

std::optional<Calibration> CalibrationShare::news() {
  std::chrono::nanoseconds now = clock_.now();
  if (ended_ || now < next_) return std::nullopt;
  next_ = now + kBeat / 2;
  Result<std::string> bytes = read_file(path_, 1 << 16);
  if (!bytes.has_value()) return std::nullopt;
  Result<Json> json = parse_json(*bytes, path_);
  if (!json.has_value() || json->text_at("schema") != "mfu.calibration/1") return std::nullopt;
  std::uint64_t beat = json->count_at("beat").value_or(0);
  if (seen_beat_ != beat) {
    alive_ = alive_ || seen_beat_.has_value();
    seen_beat_ = beat;
    heard_ = now;
  }
  if (!alive_) return std::nullopt;
  ended_ = flag(*json, "ended");
  Calibration found = calibration_of(*json);
  if (found.readings == 0 || same(found, last_)) return std::nullopt;
  last_ = found;
  return found;
}

bool CalibrationShare::lost() {
  if (said_ || ended_ || clock_.now() - heard_ < kSilence) return false;
  return said_ = true;
}

}  // namespace mfu
