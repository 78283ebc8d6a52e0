#include "measure/tile.h"

namespace mfu {

namespace {

struct Multiply {
  double rows, columns, inner;
};

double padded(double size, std::uint64_t to) {
  auto whole = static_cast<std::uint64_t>(size), step = to == 0 ? 1 : to;
  std::uint64_t tiles = (whole + step - 1) / step;
  return static_cast<double>(tiles * step);
}

double needed(const Multiply& multiply) {
  return multiply.rows * multiply.columns * multiply.inner;
}

double executed(const Multiply& multiply, const Tile& tile) {
  return padded(multiply.rows, tile.side) * padded(multiply.columns, tile.side) *
         padded(multiply.inner, tile.depth);
}

}  // namespace

double tile_share(const ModelSpec& model, std::uint64_t tokens, const Tile& tile) {
  // A multiple of any tile, to stand for many rows.
  double rows = tokens == 0 ? static_cast<double>(tile.side * tile.depth) * 1024
                            : static_cast<double>(tokens);
  double useful = 0, all = 0;
  for (const Stage& stage : model.stages) {
    if (stage.stream != Stream::text || stage.mtp) continue;
    for (const LayerRun& run : stage.order) {
      for (const Component& component : stage.kinds[run.kind].components) {
        const auto* projection = std::get_if<Projection>(&component.work);
        if (projection == nullptr || projection->in == 0 || projection->out == 0) continue;
        double in = static_cast<double>(projection->in), out = static_cast<double>(projection->out);
        double times = static_cast<double>(run.count * projection->active);
        for (const Multiply& each :
             {Multiply{rows, out, in}, Multiply{rows, in, out}, Multiply{in, out, rows}}) {
          useful += times * needed(each);
          all += times * executed(each, tile);
        }
      }
    }
  }
  return all > 0 ? useful / all : 1;
}

}  // namespace mfu
