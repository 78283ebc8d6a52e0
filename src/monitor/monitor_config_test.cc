#include "mfu/monitor.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

MonitorConfig good(std::string_view text) {
  Result<MonitorConfig> config = parse_monitor_config(text, "f.yaml");
  EXPECT_TRUE(config.has_value()) << (config.has_value() ? "" : config.error().message);
  return config.has_value() ? *config : MonitorConfig{};
}

std::string problem(std::string_view text) {
  Result<MonitorConfig> config = parse_monitor_config(text, "f.yaml");
  return config.has_value() ? "none" : config.error().message;
}

TEST(MonitorConfig, a_run_directory_is_kept_unless_told_not_to) {
  EXPECT_TRUE(good("monitoring: {output_dir: o}").keep_run);
  for (const char* none : {"none", "false", "off", "No"}) {
    MonitorConfig config = good(std::string("monitoring: {output_dir: o, run_dir: ") + none + "}");
    EXPECT_FALSE(config.keep_run) << none;
    EXPECT_EQ(config.run_dir, "");
  }
  EXPECT_EQ(good("monitoring: {run_dir: \"none\"}").run_dir, "none");
  EXPECT_TRUE(good("monitoring: {run_dir: r}").keep_run);
}

TEST(MonitorConfig, an_impossible_port_is_not_taken_for_a_file) {
  EXPECT_NE(problem("monitoring: {sinks: {prometheus: \":99999\"}}").find("1 to 65535"),
            std::string::npos);
  EXPECT_EQ(good("monitoring: {sinks: {prometheus: \"mfu.prom\"}}").prometheus, "mfu.prom");
}

TEST(MonitorConfig, the_documents_files_mean_what_they_say) {
  EXPECT_EQ(good("monitoring:\n  # every 500 steps\n  flops_profile_freq: 500\n").schedule.fixed,
            500u);
  EXPECT_EQ(good("monitor:\n  freq:\n    flops_profile_freq: 50  # E\n").schedule.fixed, 50u);
  MonitorConfig smart = good(
      "monitoring:\n  mfu_calculation_mode: \"smart\"\n  performance_monitoring:\n"
      "    measure_flops_frequency: 500\n    smart_mode:\n      initial_profiling: true\n"
      "      calibration_enabled: true\n      recalibration_frequency: 1000\n");
  ASSERT_TRUE(std::holds_alternative<SmartMode>(smart.mode));
  EXPECT_EQ(std::get<SmartMode>(smart.mode).recalibration_frequency, 1000u);
  MonitorConfig profiler = good(
      "monitoring:\n  mfu_calculation_mode: profiler\n  performance_monitoring:\n"
      "    measure_flops_frequency: 50\n");
  EXPECT_TRUE(std::holds_alternative<ProfilerMode>(profiler.mode));
  EXPECT_EQ(profiler.schedule.fixed, 50u);
  MonitorConfig estimate = good(
      "monitoring:\n  mfu_calculation_mode: \"estimate\"\n  performance_monitoring:\n"
      "    measure_flops_frequency: 0\n");
  EXPECT_TRUE(std::holds_alternative<EstimateMode>(estimate.mode));
  EXPECT_FALSE(estimate.schedule.due(0, TrainingPhase::main));
  MonitorConfig hybrid = good(R"(
monitoring:
  mfu_calculation_mode: hybrid
  performance_monitoring:
    hybrid_mode: {hardware_counters_enabled: false, fallback_to_profiler: false}
)");
  ASSERT_TRUE(std::holds_alternative<HybridMode>(hybrid.mode));
  EXPECT_FALSE(std::get<HybridMode>(hybrid.mode).hardware_counters_enabled);
  EXPECT_FALSE(std::get<HybridMode>(hybrid.mode).fallback_to_profiler);
}

TEST(MonitorConfig, every_spelling_is_the_same_setting) {
  for (const char* text :
       {"monitoring: {training_log_freq: 7}", "monitor: {training_log_freq: 7}",
        "monitoring: {freq: {training_log_freq: 7}}", "monitor: {freq: {training_log_freq: 7}}"}) {
    EXPECT_EQ(good(text).training_log_every, 7u) << text;
  }
  MonitorConfig all = good(
      "monitor:\n  freq: {perf_log_freq: 2, gpu_log_freq: 3, local_save_freq: 4}\n"
      "  measure_flops_frequency: 9\n  smart_mode: {recalibration_frequency: 8}\n"
      "  phase_frequency: {warmup: 1, main: 2, finetune: 3}\n  unmeasured: zero\n"
      "  enable_mfu_tracking: False\n  mfu_calculation_freq: 5\n  dtype: bf16\n  peak: 312e12\n");
  EXPECT_EQ(all.perf_log_every, 2u);
  EXPECT_EQ(all.device_log_every, 3u);
  EXPECT_EQ(all.local_save_every, 4u);
  EXPECT_EQ(all.schedule.fixed, 9u);
  EXPECT_EQ(all.schedule.finetune, 3u);
  EXPECT_TRUE(all.zero_where_unmeasured);
  EXPECT_FALSE(all.enabled);
  EXPECT_EQ(all.generation_every, 5u);
  EXPECT_DOUBLE_EQ(all.peak->per_s, 312e12);
  EXPECT_EQ(good("").generation_every, 10u);
  EXPECT_EQ(good("model: {layers: 3}\noptimizer: adam\n").schedule.warmup, 1000u);
  EXPECT_EQ(good("monitoring:\n").schedule.main, 500u);
}

TEST(MonitorConfig, wrong_types_say_line_and_column) {
  EXPECT_EQ(problem("monitoring:\n  flops_profile_freq: often\n"),
            "f.yaml:2:23: monitoring.flops_profile_freq: 'often' where a whole number of 0 or more "
            "was expected");
  EXPECT_NE(problem("monitor:\n  freq:\n    perf_log_freq: -1\n").find("f.yaml:3:20"),
            std::string::npos);
  EXPECT_NE(problem("monitoring: {flops_profile_freq: [1]}").find("takes one value"),
            std::string::npos);
  EXPECT_NE(problem("monitoring: {smart_mode: true}").find("is a section"), std::string::npos);
  EXPECT_NE(problem("monitoring: 5").find("is a section"), std::string::npos);
  EXPECT_NE(problem("monitoring: {mfu_calculation_mode: samrt}").find("did you mean 'smart'"),
            std::string::npos);
  EXPECT_NE(problem("monitoring: {peak: -3}").find("312e12"), std::string::npos);
  EXPECT_NE(problem("monitoring: {flops_profile_freq: \"500\"}").find("whole number"),
            std::string::npos);
  EXPECT_NE(problem("monitoring: {").find("not YAML"), std::string::npos);
  EXPECT_NE(problem("- 1\n").find("sections"), std::string::npos);
}

TEST(MonitorConfig, unknown_keys_get_a_did_you_mean) {
  EXPECT_EQ(problem("monitoring:\n  flops_profile_frq: 5\n"),
            "f.yaml:2:3: there is no setting 'monitoring.flops_profile_frq'; did you mean "
            "'monitoring.flops_profile_freq'?");
  EXPECT_NE(problem("monitor:\n  recalibration_frequncy: 5\n")
                .find("'monitor.performance_monitoring.smart_mode.recalibration_frequency'"),
            std::string::npos);
  EXPECT_NE(problem("monitorng:\n  flops_profile_freq: 5\n").find("did you mean 'monitoring'"),
            std::string::npos);
  EXPECT_NE(problem("monitoring:\n  zebra: 5\n").find("docs/monitor.md"), std::string::npos);
}

TEST(MonitorConfig, two_spellings_that_disagree_are_said) {
  EXPECT_EQ(problem("monitoring:\n  flops_profile_freq: 5\n  freq: {flops_profile_freq: 5}\n"),
            "none");
  std::string two =
      problem("monitoring:\n  flops_profile_freq: 5\nmonitor:\n  freq: {flops_profile_freq: 6}\n");
  EXPECT_NE(two.find("line 2"), std::string::npos) << two;
}

TEST(MonitorConfig, says_what_each_setting_means_now_and_keeps_what_is_good) {
  Result<ConfigReading> reading = read_monitor_config(
      "monitoring:\n  mfu_calculation_mode: estimate\n  flops_profile_freq: 5\n  typo_here: 1\n"
      "  smart_mode: {initial_profiling: true}\n",
      "f.yaml");
  ASSERT_TRUE(reading.has_value());
  ASSERT_EQ(reading->settings.size(), 3u);
  EXPECT_EQ(reading->settings[1].meaning, "nothing is measured in this mode");
  EXPECT_NE(reading->settings[2].meaning.find("not used"), std::string::npos);
  EXPECT_EQ(reading->settings[1].line, 3u);
  EXPECT_EQ(reading->problems.size(), 1u);
  EXPECT_EQ(reading->config.schedule.fixed, 5u);
}

TEST(MonitorConfig, of_several_places_the_first_wins_and_what_is_wrong_in_one_costs_nothing_else) {
  ConfigSource sources[] = {
      {.name = "keywords",
       .given = {{"flops_profile_freq", "5"},
                 {"csv", "7", true},
                 {"devices", "2", true},
                 {"x", "1"},
                 {"freq", "3"}}},
      {.name = "f.yaml",
       .text = "monitoring: {freq: {flops_profile_freq: 6}, sinks: {csv: b}, devices: 3}\n"},
      {.name = "broken.yaml", .text = "monitoring: {"},
  };
  ConfigReading reading = read_monitor_config(sources);
  EXPECT_EQ(reading.config.schedule.fixed, 5u);
  EXPECT_EQ(reading.config.csv, "7");
  EXPECT_EQ(reading.config.devices, 3u);  // the keyword is a text, not a number
  ASSERT_EQ(reading.problems.size(), 4u);
  EXPECT_EQ(reading.problems[0],
            "keywords: monitoring.devices: '2' where a whole number of 0 or more was expected");
  EXPECT_EQ(reading.problems[1],
            "keywords: there is no setting 'monitoring.x'; docs/monitor.md lists them all");
  EXPECT_EQ(reading.problems[2],
            "keywords: 'monitoring.freq' is a section: its settings go below it");
  EXPECT_NE(reading.problems[3].find("not YAML"), std::string::npos);
}

TEST(MonitorConfig, ranks_have_files_of_their_own_and_one_console) {
  MonitorConfig given{.csv = "a.b/table", .jsonl = "x.jsonl", .tensorboard = "board"};
  given.console = true;
  for (const char* where : {"mfu.prom", ":9464"}) {
    given.prometheus = where;
    MonitorConfig first = of_rank(given, 0), third = of_rank(given, 3);
    EXPECT_EQ(first.csv + first.log_file + first.prometheus,
              given.csv + "training_log.json" + where);
    EXPECT_TRUE(first.console);
    EXPECT_FALSE(third.console);
    EXPECT_EQ(third.log_file, "training_log.rank3.json");
    EXPECT_EQ(third.csv, "a.b/table.rank3");
    EXPECT_EQ(third.jsonl, "x.rank3.jsonl");
    EXPECT_EQ(third.tensorboard, "board/rank3");
    EXPECT_EQ(third.prometheus, where[0] == ':' ? ":9464" : "mfu.rank3.prom");
  }
}

}  // namespace
}  // namespace mfu
