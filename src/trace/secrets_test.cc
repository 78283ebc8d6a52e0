// Credentials in traces: mfu says where they are, and keeps them nowhere.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trace/trace.h"

namespace mfu {
namespace {

// Written as in a benchmark that published traces with a valid token.
TEST(TraceSecrets, says_where_a_credential_is_and_keeps_it_nowhere) {
  std::string key = "hf_" + std::string("aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA");
  std::string text =
      R"({"torch_env_info":{"env":{"HF_TOKEN":")" + key +
      R"(","HOME":"/root","WANDB_API_KEY":"xxxx"},"list":[{"url":"https://me:pw1@host/x"}]},)" +
      R"("api_key":"1234abcd","traceEvents":[{"ph":"X","cat":"cpu_op","name":"load )" + key +
      R"(","pid":1,"tid":1,"ts":1,"dur":5,"args":{}}]})";
  Trace trace = read_trace_bytes(text, "secret.json").value();
  std::vector<std::string> expected = {
      "a Hugging Face token in \"torch_env_info.env.HF_TOKEN\"",
      "a password in a URL in \"torch_env_info.list.url\"", "a key in \"api_key\"",
      "a Hugging Face token in the name, the inputs or the call stack of an event"};
  EXPECT_EQ(trace.coverage.secrets, expected);
  EXPECT_EQ(trace.text(trace.host.name[0]), "load " + std::string(key.size(), '*'));
  for (const auto& [name, value] : trace.info.other) EXPECT_NE(value, "1234abcd");
  for (const Note& note : trace.coverage.notes) {
    EXPECT_EQ(std::get<std::string>(note.values[0].second).find(key), std::string::npos);
  }
}

TEST(TraceSecrets, finds_a_credential_in_the_command_line_of_a_process) {
  std::string command = "python x.py --password " + std::string("hun") + "ter2";
  for (std::string event :
       {R"({"ph":"M","name":"process_name","pid":1,"tid":0,"ts":1,"args":{"name":")" + command +
            R"("}})",
        R"({"name":"process_name","ph":"M","ts":1,"pid":1,"args":{"name":")" + command +
            R"("}})"}) {
    std::string text = R"({"traceEvents":[)" + event + "," + event +
                       R"(,{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":5}]})";
    Trace trace = read_trace_bytes(text, "secret.json").value();
    EXPECT_EQ(trace.coverage.secrets,
              std::vector<std::string>{"a password in \"process_name.name\""});
  }
}

TEST(TraceSecrets, repeats_no_credential_of_what_a_trace_says_of_itself) {
  std::string key = "hf_" + std::string("aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA");
  std::string text = R"({"traceName":"/x/)" + key + R"(.json","deviceProperties":[{"name":"H100 )" +
                     key + R"("}],"distributedInfo":{"rank":0,"backend":")" + key +
                     R"("},"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,)" +
                     R"("tid":1,"ts":1,"dur":5}]})";
  Trace trace = read_trace_bytes(text, "secret.json").value();
  EXPECT_EQ(trace.info.devices.at(0).name, "H100 [hidden]");
  EXPECT_EQ(trace.info.trace_name.find(key), std::string::npos);
  EXPECT_EQ(trace.info.backend.find(key), std::string::npos);
}

TEST(TraceSecrets, repeats_no_credential_of_the_file_s_own_name) {
  std::string key = "hf_" + std::string("aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA");
  std::string text =
      R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":5}]})";
  Trace trace = read_trace_bytes(text, "runs/" + key + "/rank0.json").value();
  EXPECT_EQ(trace.info.path, "runs/[hidden]/rank0.json");
  EXPECT_EQ(trace.coverage.secrets,
            std::vector<std::string>{"a Hugging Face token in the file's name"});
}

}  // namespace
}  // namespace mfu
