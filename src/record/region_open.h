// Another process's region: mapped by the one that drains it, copied by a reader. A region of
// layout 1 is given as layout 2.
#pragma once

#include <memory>
#include <string>

#include "mfu/result.h"
#include "record/region.h"
#include "record/region_v1.h"

namespace mfu {

class OpenRegion {
 public:
  static Result<OpenRegion> open(const std::string& path);

  // As it is now. Of layout 1: as it was at the last refresh().
  const Region& region() const { return mapped_ ? *mapped_ : *copy_; }
  void refresh();
  void set_tail(std::uint64_t tail);
  // Asks the program for something (RequestKind); false: its layout knows no requests.
  bool request(std::uint64_t word);

 private:
  struct Unmapper {
    void operator()(Region* region) const;
    void operator()(v1::Region* region) const;
  };
  std::unique_ptr<Region, Unmapper> mapped_;
  std::unique_ptr<v1::Region, Unmapper> older_;
  std::unique_ptr<Region> copy_;
};

// A copy, which no other process can change under a reader.
Result<std::unique_ptr<Region>> copy_region(const std::string& path);

}  // namespace mfu
