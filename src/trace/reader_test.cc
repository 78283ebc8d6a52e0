// Oddities that a trace may have, one for each test.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "trace/archive_for_tests.h"
#include "trace/category.h"
#include "trace/trace.h"

namespace mfu {
namespace {

Trace read(const std::string& events) {
  auto trace = read_trace_bytes("{\"traceEvents\": [" + events + "]}", "t.json");
  EXPECT_TRUE(trace.has_value()) << trace.error().message;
  return std::move(trace).value();
}

std::string error_of(const std::string& bytes) {
  auto trace = read_trace_bytes(bytes, "t.json");
  return trace.has_value() ? "" : trace.error().message;
}

// An operator that launches a kernel, as Kineto writes them.
const std::string kChain = R"(
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 2, "ts": 100, "dur": 50,
 "args": {"External id": 5, "Sequence number": 9, "Fwd thread id": 0}},
{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 2, "ts": 110.5, "dur": 30,
 "args": {"External id": 6, "Input Dims": [[8], [4, 16], [16, 8], [], [[2, 3], [4]]],
  "Input type": ["float", "float", "float", "Scalar", "TensorList"], "Concrete Inputs": ["",
          "", "", "1", ""]}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 120,
          "dur": 5,
 "args": {"correlation": 77, "External id": 6}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 200.25, "dur": 10.125,
 "args": {"device": 0, "stream": 7, "correlation": 77, "External id": 6, "grid": [4, 1, 1],
          "block": [128, 1, 1]}})";

TEST(Reader, links_kernel_to_launch_to_operator) {
  Trace trace = read(kChain);
  ASSERT_EQ(trace.device.size(), 1u);
  EXPECT_EQ(trace.device.start_ns[0], 200250);
  EXPECT_EQ(trace.device.duration_ns[0], 10125);
  EXPECT_EQ(trace.text(trace.device.geometry[0]), "[4, 1, 1][128, 1, 1]");
  std::uint32_t launch = trace.device.launch[0];
  ASSERT_NE(launch, kNone);
  EXPECT_EQ(trace.launches.kind[launch], LaunchKind::kernel);
  std::uint32_t op = trace.device.host[0];
  EXPECT_EQ(trace.text(trace.host.name[op]), "aten::addmm");
  EXPECT_EQ(trace.text(trace.host.name[trace.outermost_operator(op)]), "aten::linear");
  std::vector<OperatorInput> inputs = parse_inputs(trace.text(trace.host.inputs[op]));
  ASSERT_EQ(inputs.size(), 5u);
  EXPECT_EQ(inputs[1].shapes, (std::vector<std::vector<std::int64_t>>{{4, 16}}));
  EXPECT_EQ(inputs[1].type, "float");
  EXPECT_EQ(inputs[3].concrete, "1");
  EXPECT_TRUE(inputs[3].shapes.empty());
  EXPECT_TRUE(inputs[4].list);
  EXPECT_EQ(inputs[4].shapes, (std::vector<std::vector<std::int64_t>>{{2, 3}, {4}}));
  EXPECT_EQ(trace.coverage.linked, 1u);
  EXPECT_EQ(trace.coverage.linked_to_operator, 1u);
}

TEST(Reader, takes_the_categories_of_2021_and_streams_as_text) {
  Trace trace = read(
      R"({"ph":"X","cat":"Operator","name":"aten::mm","pid":1,"tid":"25738","ts":1,"dur":9,"args":{"External id":4}},
         {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":1,"tid":"25738","ts":2,
          "dur":1,"args":{"correlation":3,"external id":4}},
         {"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":12,"dur":2,
          "args":{"device":0,"stream":7,"correlation":3,"external id":4}},
         {"ph":"X","cat":"Memcpy","name":"Memcpy HtoD","pid":0,"tid":"stream 7","ts":15,"dur":2,
          "args":{"device":0,"stream":7,"bytes":64}},
         {"ph":"X","cat":"Memset","name":"Memset","pid":0,"tid":"stream 7","ts":18,"dur":2})");
  ASSERT_EQ(trace.device.size(), 3u);
  EXPECT_EQ(trace.lanes.size(), 1u);
  EXPECT_EQ(trace.device.kind[1], DeviceKind::memcpy);
  EXPECT_EQ(trace.device.bytes[1], 64);
  EXPECT_EQ(trace.device.kind[2], DeviceKind::memset);
  EXPECT_EQ(trace.text(trace.host.name[trace.device.host[0]]), "aten::mm");
}

TEST(Reader, a_triton_operator_that_carries_a_stream_is_no_device_event) {
  Trace trace = read(
      R"({"ph":"X","cat":"cpu_op","name":"triton_poi","pid":1,"tid":1,"ts":1,"dur":9,"args":{"stream":7,"grid":"g"}
})");
  EXPECT_EQ(trace.device.size(), 0u);
  EXPECT_EQ(trace.host.size(), 1u);
}

TEST(Reader, falls_back_to_arrows_and_external_ids) {
  // There are no correlation ids. The arrow leads from the launch to the first kernel; the second
  // kernel has only an external id.
  Trace trace = read(
      R"({"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":1,"dur":9,"args":{"External id":4}},
         {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":1},
         {"ph":"s","cat":"async_cpu_to_gpu","id":31,"pid":1,"tid":1,"ts":2,"name":"x"},
         {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":2},
         {"ph":"f","cat":"async_cpu_to_gpu","id":31,"pid":0,"tid":7,"ts":20,"name":"x","bp":"e"},
         {"ph":"X","cat":"kernel","name":"l","pid":0,"tid":7,"ts":30,"dur":2,
          "args":{"External id":4}})");
  EXPECT_NE(trace.device.launch[0], kNone);
  EXPECT_EQ(trace.device.launch[1], kNone);
  EXPECT_EQ(trace.text(trace.host.name[trace.device.host[0]]), "op");
  EXPECT_EQ(trace.text(trace.host.name[trace.device.host[1]]), "op");
  EXPECT_EQ(trace.coverage.linked, 1u);
}

TEST(Reader, one_graph_launch_has_many_kernels) {
  Trace trace = read(
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":1,"tid":1,"ts":2,"dur":1,"args":{"correlation":8}},
         {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":20,"dur":2,
          "args":{"correlation":8,"graph node id":11}},
         {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":30,"dur":2,
          "args":{"correlation":8,"graph node id":12}})");
  EXPECT_EQ(trace.coverage.graph_launched, 2u);
  EXPECT_EQ(trace.device.launch[0], trace.device.launch[1]);
  EXPECT_EQ(trace.device.graph_node[1], 12);
}

TEST(Reader, clips_and_counts_what_clocks_got_wrong) {
  Trace trace = read(
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":25.5,"dur":1,"args":{"correlation":8}},
         {"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":20.5,"dur":1000000,
          "args":{"correlation":8}},
         {"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":30.5,"dur":2},
         {"ph":"X","cat":"kernel","name":"c","pid":0,"tid":9,"ts":31.5,"dur":2})");
  EXPECT_EQ(trace.coverage.before_launch, 1u);
  ASSERT_EQ(trace.clips.size(), 1u);
  EXPECT_EQ(trace.device.duration_ns[0], 1000000000);  // as recorded
  EXPECT_EQ(trace.clipped_duration_ns(0), 10000);
  EXPECT_EQ(trace.clipped_duration_ns(1), 2000);
}

TEST(Reader, knows_the_runtimes_of_other_vendors) {
  EXPECT_EQ(launch_kind("hipExtModuleLaunchKernel"), LaunchKind::kernel);
  EXPECT_EQ(launch_kind("cuLaunchKernelEx"), LaunchKind::kernel);
  EXPECT_EQ(launch_kind("cudaLaunchKernelExC"), LaunchKind::kernel);
  EXPECT_EQ(launch_kind("zeCommandListAppendLaunchKernel"), LaunchKind::kernel);
  EXPECT_EQ(launch_kind("urEnqueueKernelLaunch"), LaunchKind::kernel);
  EXPECT_EQ(launch_kind("hipGraphLaunch"), LaunchKind::graph);
  EXPECT_EQ(launch_kind("hipMemcpyWithStream"), LaunchKind::copy);
  EXPECT_EQ(launch_kind("cudaStreamSynchronize"), LaunchKind::synchronize);
  EXPECT_EQ(launch_kind("cudaEventQuery"), LaunchKind::other);
  for (const char* category :
       {"xpu_runtime", "mtia_runtime", "privateuse1_runtime", "cuda_driver"}) {
    EXPECT_EQ(parse_category(category), Category::runtime) << category;
  }
  EXPECT_EQ(parse_category("mtia_ccp_events"), Category::kernel);
}

TEST(Reader, knows_communication_by_name) {
  for (const char* name : {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
                           "ncclKernel_SendRecv",
                           "rcclGenericKernel",
                           "void vllm::cross_device_reduce_1stage<__half, 8>",
                           "nvshmemi_transfer_put",
                           "void deep_ep::intranode::dispatch<8>",
                           "deep_ep::internode_ll::combine<true>",
                           "mscclKernel_Sum_hip_bfloat16_Simple_false",
                           "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8, false>(int)",
                           "void deep_ep::intranode::notify_dispatch<8>(int const*)",
                           "void deep_ep::intranode::cached_notify_combine<8>(void**)",
                           "deep_ep::internode_ll::clean_low_latency_buffer(int*)",
                           "notify_dispatch<false, 8>",
                           "void uccl::intranode::cached_notify_dispatch<8>(int const*)",
                           "uccl::internode::combine",
                           "void dispatch<8, 768, 8192>(int4*, float*)",
                           "void (anonymous namespace)::combine<8>(int)",
                           "_ZN7deep_ep9intranode8dispatchILi8ELi768EEEvP4int4",
                           "dpsk::ep::internode::dispatch_ll",
                           "hybrid_ep::dispatch_kernel<hybrid_ep::group>",
                           "EpDispatchIntraNodeKernel_bf16",
                           "void mori::moe::EpCombineInterNodeV1Kernel<float>(int)",
                           "moeA2ADispatchKernel",
                           "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int)",
                           "rocshmem_reduce_on_stream_kernel",
                           "dlslime::intranode_alltoall_kernel"}) {
    EXPECT_TRUE(is_communication_kernel(name)) << name;
  }
  for (const char* name :
       {"gemm", "moe_dispatch_kernel", "reduce_kernel", "combine_topk",
        "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
        "flash_fwd_mla_combine_kernel", "at::native::(anonymous namespace)::dispatch_kernel<int>",
        "void cutlass::device_kernel<flash::FlashAttnFwdCombine<float>>(int)"}) {
    EXPECT_FALSE(is_communication_kernel(name)) << name;
  }
}

TEST(Reader, knows_communication_by_what_was_recorded) {
  Trace trace = read(
      R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":1,"dur":9,"args":{"Collective name":"allreduce",
          "In msg nelems":1024,"Out msg nelems":1024,"Group size":8,"dtype":"BFloat16",
          "Process Group Name":"3","Process Group Ranks":"[0, 1]"}},
         {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,
          "dur":1,"args":{"correlation":3}},
         {"ph":"X","cat":"kernel","name":"my_own_allreduce","pid":0,"tid":7,"ts":20,"dur":2,
          "args":{"correlation":3}})");
  EXPECT_EQ(trace.device.kind[0], DeviceKind::communication);
  ASSERT_NE(trace.device.collective[0], kNone);
  const Collective& collective = trace.collectives[trace.device.collective[0]];
  EXPECT_EQ(trace.text(collective.name), "allreduce");
  EXPECT_EQ(collective.elements_in, 1024);
  EXPECT_EQ(trace.text(collective.ranks), "[0, 1]");
}

TEST(Reader, reads_what_the_file_says_of_itself) {
  auto trace = read_trace_bytes(
      R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
         "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8,
          "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}]},
         "with_stack": 1, "traceEvents": [{"ph":"i","name":"x"}], "traceName": "a\/b.json",
          "baseTimeNanoseconds": 1767189312000000000})",
      "t");
  ASSERT_TRUE(trace.has_value());
  const TraceInfo& info = trace->info;
  EXPECT_EQ(info.devices.at(0).name, "NVIDIA H100");
  EXPECT_EQ(info.devices[0].memory_bytes, 85018279936);
  EXPECT_EQ(info.devices[0].multiprocessors, 132);
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.world_size, 8);
  EXPECT_EQ(info.groups.at(0).ranks, "[0, 1]");
  EXPECT_EQ(info.trace_name, "a/b.json");
  EXPECT_EQ(info.base_time_ns, 1767189312000000000);
  EXPECT_EQ(info.other.at(0).first, "with_stack");
}

TEST(Reader, names_are_clean_and_kept_once) {
  Trace trace = read(
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":"
      "\"a\\u0041\\n\x01\xff\xc3\xa9\\ud83d\\ude00\\ud800\",\"pid\":0,\"tid\":1,\"ts\":1,\"dur\":1}"
      ","
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"\\u0061A\",\"pid\":0,\"tid\":1,\"ts\":3,\"dur\":"
      "1},"
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"aA\",\"pid\":0,\"tid\":1,\"ts\":5,\"dur\":1}");
  EXPECT_EQ(trace.text(trace.device.name[0]), "aA ??\xc3\xa9\xf0\x9f\x98\x80?");
  EXPECT_EQ(trace.device.name[1], trace.device.name[2]);
}

TEST(Reader, skips_what_has_no_time_and_counts) {
  Trace trace = read(
      R"({"ph":"X","cat":"kernel","name":"a","ts":NaN,"dur":1},{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":-1},
         {"ph":"X","cat":"kernel","name":"a","ts":1e300,"dur":1},{"ph":"X","cat":"kernel",
          "name":"a","dur":1},
         {"ph":"X","cat":"kernel","name":"a","ts":Infinity,"dur":1},{"cat":"kernel"},{},
         {"ph":"X","cat":"kernel","name":"a","ts":"5.5","dur":"1"},{"ph":"X","cat":"kernel",
          "name":"b","ts":-7,"dur":1})");
  ASSERT_EQ(trace.device.size(), 2u);
  EXPECT_EQ(trace.device.start_ns[0], -7000);
  EXPECT_EQ(trace.device.start_ns[1], 5500);
  EXPECT_EQ(trace.coverage.skipped_events, 7u);
}

TEST(Reader, says_what_is_no_trace) {
  EXPECT_NE(error_of("").find("is empty"), std::string::npos);
  EXPECT_NE(error_of("hello").find("not a profiler trace"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": 1}").find("traceEvents"), std::string::npos);
  EXPECT_NE(error_of("{\"traceEvents\": []}").find("no event"), std::string::npos);
  EXPECT_NE(error_of("\x1f\x8b garbage").find("gzip"), std::string::npos);
  auto missing = read_trace("/nonexistent/trace.json");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

std::string whole_trace() {
  return "{\"schemaVersion\": 1, \"traceEvents\": [" + kChain + "\n]}\n";
}

TEST(Reader, compression_changes_nothing) {
  std::string text = whole_trace();
  std::string half = text.substr(0, text.size() / 2), rest = text.substr(text.size() / 2);
  for (const std::string& bytes :
       {text, gzipped(text), gzipped(half) + gzipped(rest), zstd_compressed(text),
        zstd_compressed(half) + zstd_compressed(rest)}) {
    auto trace = read_trace_bytes(bytes, "t");
    ASSERT_TRUE(trace.has_value()) << trace.error().message;
    EXPECT_EQ(trace->device.size(), 1u);
    EXPECT_EQ(trace->coverage.linked, 1u);
    EXPECT_FALSE(trace->coverage.truncated);
    EXPECT_EQ(trace->coverage.json_bytes, text.size() - 1);
  }
}

TEST(Reader, truncated_anywhere_it_says_so) {
  std::string text = whole_trace();
  for (const std::string& bytes : {text, gzipped(text), zstd_compressed(text)}) {
    for (std::size_t size = 0; size < bytes.size() - 2; ++size) {
      auto trace = read_trace_bytes(bytes.substr(0, size), "t");
      if (trace.has_value()) {
        EXPECT_TRUE(trace->coverage.truncated) << size << " of " << bytes.size();
        EXPECT_LE(trace->coverage.truncated_at_byte, text.size());
      } else {
        EXPECT_FALSE(trace.error().message.empty());
      }
    }
  }
}

TEST(Reader, damaged_archives_end_where_they_break) {
  std::string events;
  for (int i = 0; i < 20000; ++i) {
    events += "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k" + std::to_string(i % 97) +
              "\",\"pid\":0,\"tid\":7,\"ts\":" + std::to_string(i * 7) + ",\"dur\":3},\n";
  }
  std::string bytes = gzipped("{\"traceEvents\":[" + events + "{}]}");
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = bytes;
    damaged[20 + random() % (damaged.size() - 20)] ^= static_cast<char>(1 + random() % 255);
    auto trace = read_trace_bytes(damaged, "t");
    if (trace.has_value()) {
      EXPECT_TRUE(trace->coverage.truncated || trace->coverage.skipped_events > 0 ||
                  trace->device.size() == 20000);
    }
  }
}

TEST(Reader, an_archive_of_spaces_ends_and_takes_no_memory) {
  std::string bomb;
  std::string spaces = gzipped(std::string(16 << 20, ' '));
  for (int i = 0; i < 4; ++i) bomb += spaces;
  EXPECT_NE(error_of(bomb).find("is empty"), std::string::npos);
}

TEST(Reader, random_traces_read_back_as_they_were_written) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    struct Row {
      std::int64_t start, duration;
      std::string name;
    };
    std::vector<Row> rows;
    std::string events;
    auto count = random() % 200 + 1;
    for (std::size_t i = 0; i < count; ++i) {
      Row row{static_cast<std::int64_t>(random() % 100000000000000u + 1700000000000000000u),
              static_cast<std::int64_t>(random() % 100000),
              "kernel<" + std::to_string(random() % 50) + ">"};
      auto micro = [](std::int64_t ns) {
        return std::to_string(ns / 1000) + "." + std::to_string(1000 + ns % 1000).substr(1);
      };
      if (!events.empty()) events += random() % 2 ? ",\n  " : ",";
      std::vector<std::string> members = {"\"ph\": \"X\"",
                                          "\"cat\": \"kernel\"",
                                          "\"name\":\"" + row.name + "\"",
                                          "\"ts\": " + micro(row.start),
                                          "\"dur\" : " + micro(row.duration),
                                          "\"args\": {\"stream\": 7, \"junk\": [{\"}\": \"]\"}]}"};
      std::shuffle(members.begin(), members.end(), random);
      events += "{";
      for (std::size_t m = 0; m < members.size(); ++m) events += (m > 0 ? ", " : "") + members[m];
      events += "}";
      rows.push_back(row);
    }
    Trace trace = read(events);
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return a.start < b.start; });
    ASSERT_EQ(trace.device.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(trace.device.start_ns[i], rows[i].start);
      EXPECT_EQ(trace.device.duration_ns[i], rows[i].duration);
      EXPECT_EQ(trace.text(trace.device.name[i]), rows[i].name);
    }
  }
}

TEST(Reader, columns_go_to_disk_and_read_the_same) {
  std::string events;
  for (int i = 0; i < 60000; ++i) {
    events += "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":" +
              std::to_string((i * 7919) % 60000 * 10) + ",\"dur\":3},\n";
  }
  std::string text = "{\"traceEvents\":[" + events + "{\"ph\":\"M\"}]}";
  auto in_memory = read_trace_bytes(text, "t");
  auto on_disk = read_trace_bytes(text, "t", {.memory_bytes = 100000});
  ASSERT_TRUE(in_memory.has_value() && on_disk.has_value());
  EXPECT_FALSE(in_memory->device.start_ns.on_disk());
  EXPECT_TRUE(on_disk->device.start_ns.on_disk());
  ASSERT_EQ(on_disk->device.size(), 60000u);
  EXPECT_TRUE(std::equal(in_memory->device.start_ns.begin(), in_memory->device.start_ns.end(),
                         on_disk->device.start_ns.begin()));
}

TEST(Reader, can_be_cancelled_and_tells_how_far_it_is) {
  std::atomic<bool> cancel{true};
  auto trace = read_trace_bytes(whole_trace(), "t", {.cancel = &cancel});
  ASSERT_FALSE(trace.has_value());
  EXPECT_NE(trace.error().message.find("cancelled"), std::string::npos);
}

TEST(Reader, reads_directories_in_rank_order_and_leaves_strangers_out) {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("mfu_trace_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (int rank : {2, 0, 10, 1}) {
    std::ofstream(folder / ("w" + std::to_string(rank * 7 % 4) + ".json"))
        << "{\"distributedInfo\": {\"rank\": " << rank << "}, \"traceEvents\": [" << kChain << "]}";
  }
  std::ofstream(folder / "config.json") << "{\"a\": 1}";
  auto traces = read_trace_files({folder.string()});
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(traces.has_value()) << traces.error().message;
  for (std::size_t i = 1; i < traces->size(); ++i)
    EXPECT_LT((*traces)[i - 1].info.rank, (*traces)[i].info.rank);
  bool noted = false;
  for (const Trace& trace : *traces) {
    for (const Note& note : trace.coverage.notes)
      noted |=
          note.code == "file_left_out" &&
          std::get<std::string>(note.values.at(0).second).find("config.json") != std::string::npos;
  }
  EXPECT_TRUE(noted);
  EXPECT_FALSE(read_trace_files({"/nonexistent-folder/x"}).has_value());
}

TEST(Reader, steps_are_numbered) {
  Trace trace = read(
      R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#12","pid":1,"tid":1,"ts":10,"dur":9},
         {"ph":"X","cat":"Operator","name":"ProfilerStep#11","pid":1,"tid":1,"ts":1,"dur":9},
         {"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#11","pid":0,"tid":7,"ts":1,
          "dur":9})");
  ASSERT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.steps[0].number, 11);
  EXPECT_EQ(trace.steps[1].number, 12);
}

// node(n) is the range that the engine records around a backward node with these operators.
std::string node(int at, int sequence, const std::string& inside) {
  std::string ts = std::to_string(at), args = R"("args":{"Sequence number":)" +
                                              std::to_string(sequence) + R"(,"Fwd thread id":1}})";
  return R"({"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: B","pid":1,"tid":2,"dur":100,"ts":)" +
         ts + "," + args + ",\n" +
         R"({"ph":"X","cat":"cpu_op","name":"B","pid":1,"tid":2,"dur":90,"ts":)" +
         std::to_string(at + 1) + "," + args + ",\n" + inside;
}

std::string inner(int at, const std::string& name, int sequence) {
  std::string numbered =
      sequence < 0 ? ""
                   : R"("Sequence number":)" + std::to_string(sequence) + R"(,"Fwd thread id":0)";
  return R"({"ph":"X","cat":"cpu_op","name":")" + name + R"(","pid":1,"tid":2,"dur":10,"ts":)" +
         std::to_string(at) + R"(,"args":{)" + numbered + "}},\n";
}

TEST(Reader, forward_operators_inside_a_backward_are_recomputation) {
  std::string events = inner(0, "forward", 50);
  for (int i = 0; i < 20; ++i) {
    int at = 1000 + i * 200;
    events +=
        node(at, 60 + i, inner(at + 10, "grad", -1) + (i == 5 ? inner(at + 30, "again", 90) : ""));
  }
  Trace trace = read(events + "{\"ph\":\"M\"}");
  int recomputed = 0;
  for (std::size_t i = 0; i < trace.host.size(); ++i) {
    bool again = trace.text(trace.host.name[i]) == "again";
    EXPECT_EQ(trace.host.recomputed[i] != 0, again);
    EXPECT_EQ(trace.host.backward[i] != 0, trace.text(trace.host.name[i]) != "forward");
    recomputed += again;
  }
  EXPECT_EQ(recomputed, 1);
}

TEST(Reader, a_double_backward_is_no_recomputation) {
  std::string events;
  for (int i = 0; i < 20; ++i) {
    int at = 1000 + i * 200;
    events += node(at, 60 + i, inner(at + 10, "grad", 200 + i));
  }
  Trace trace = read(events + "{\"ph\":\"M\"}");
  EXPECT_EQ(std::count(trace.host.recomputed.begin(), trace.host.recomputed.end(), 1), 0);
}

}  // namespace
}  // namespace mfu
