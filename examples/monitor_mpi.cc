// The ranks of an MPI program share one calibration. Rank 0 counts a step now and then and sends
// the factors to the others in messages for which nobody waits. Steps get no additional collective,
// and a rank that has received nothing yet uses its estimate.
//
//   mpirun -n 2 monitor_mpi [FOLDER]
#include <mfu/mfu.h>
#include <mpi.h>

#include <cstdio>
#include <thread>

namespace {

constexpr int kTag = 77;

struct Letter {
  mfu::Calibration calibration{};
  bool last = false;  // rank 0 has ended
};

// On rank 0: sends a letter to all other ranks and keeps it until it has been sent.
class Sender {
 public:
  explicit Sender(int ranks) : ranks_(ranks) {}
  void send(const Letter& letter) {
    letters_.push_back(std::make_unique<Letter>(letter));
    for (int to = 1; to < ranks_; ++to) {
      requests_.emplace_back();
      MPI_Isend(letters_.back().get(), sizeof(Letter), MPI_BYTE, to, kTag, MPI_COMM_WORLD,
                &requests_.back());
    }
  }
  void finish() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }

 private:
  int ranks_;
  std::vector<std::unique_ptr<Letter>> letters_;
  std::vector<MPI_Request> requests_;
};

// On the other ranks: checks whether a letter has arrived.
class Receiver {
 public:
  Receiver() { listen(); }
  bool last() const { return letter_.last; }
  void look(mfu::Monitor& monitor) {
    int came = 0;
    MPI_Test(&request_, &came, MPI_STATUS_IGNORE);
    if (came != 0) take(monitor);
  }
  void wait(mfu::Monitor& monitor) {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    take(monitor);
  }

 private:
  void listen() {
    MPI_Irecv(&letter_, sizeof letter_, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request_);
  }
  void take(mfu::Monitor& monitor) {
    if (letter_.last) return;
    monitor.add_calibration(letter_.calibration);
    listen();
  }
  Letter letter_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// Stands in for the program's own work, with a collective of its own.
void train(double& gradient) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  double sum = 0;
  MPI_Allreduce(&gradient, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  gradient = sum / 2;
}

std::unique_ptr<mfu::Monitor> open_monitor(const std::string& folder, int rank) {
  mfu::MonitorOptions options;
  options.model = *mfu::model_of_shape({.layers = 4, .hidden = 256, .heads = 8, .vocab = 1000});
  options.peak = mfu::FlopRate{5e12};
  options.rank = static_cast<std::uint32_t>(rank);
  if (!folder.empty()) options.config.jsonl = folder + "/rank" + std::to_string(rank) + ".jsonl";
  auto opened = mfu::Monitor::open(std::move(options));
  return opened.has_value() ? std::move(opened).value() : nullptr;
}

// A real program would ask the observer (mfu/observer.h). This one makes the number up: a tenth
// more than the model needs.
mfu::FlopReading counted(std::uint64_t step, const mfu::StepShape& shape) {
  auto model = mfu::model_of_shape({.layers = 4, .hidden = 256, .heads = 8, .vocab = 1000});
  auto need = mfu::flop_per_step(*model, {.batch = 8, .sequence = 128});
  double flop = need->model_flop.to_double() * 1.1;
  return {.step = step, .shape = shape, .flop = static_cast<std::uint64_t>(flop)};
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::unique_ptr<mfu::Monitor> monitor = open_monitor(argc > 1 ? argv[1] : "", rank);
  if (monitor == nullptr) MPI_Abort(MPI_COMM_WORLD, 1);
  std::unique_ptr<Sender> sender = rank == 0 ? std::make_unique<Sender>(ranks) : nullptr;
  std::unique_ptr<Receiver> receiver = rank != 0 ? std::make_unique<Receiver>() : nullptr;
  mfu::StepShape shape = mfu::StepShape::of(8, 128);
  std::uint32_t sent = 0;
  double gradient = 1;
  for (std::uint64_t step = 0; step < 200; ++step) {
    train(gradient);
    if (rank == 0 && monitor->measurement_due(step)) monitor->add_reading(counted(step, shape));
    monitor->log_step({.step = step, .loss = gradient, .shape = shape});
    if (receiver && !receiver->last()) receiver->look(*monitor);
    if (!sender) continue;
    mfu::Calibration now = monitor->calibration();
    if (now.readings > sent) sender->send({.calibration = now});
    sent = std::max(sent, now.readings);
  }
  // After the last step the ranks may wait for each other.
  if (sender) {
    sender->send({.last = true});
    sender->finish();
  }
  while (receiver && !receiver->last()) receiver->wait(*monitor);
  monitor->log_step({.step = 200, .loss = gradient, .shape = shape});
  monitor->close();
  auto last = monitor->last_report();
  std::printf("rank %d: FLOPs %s, MFU %.4f\n", rank,
              last && last->source ? std::string(name_of(*last->source)).c_str() : "unknown",
              last ? last->value("perf/mfu").value_or(0) : 0);
  MPI_Finalize();
  return 0;
}
