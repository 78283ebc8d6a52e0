#include "base/secrets.h"

#include <gtest/gtest.h>

#include <random>

namespace mfu {
namespace {

// These credentials are made up and put together from pieces, so that scanners of sources find
// nothing in this file.
std::string made_up(std::string_view start, std::size_t size) {
  constexpr std::string_view kLetters = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY";
  std::string text(start);
  for (std::size_t i = 0; i < size; ++i) text += kLetters[i % kLetters.size()];
  return text;
}

TEST(Secrets, known_forms_are_hidden_wherever_they_stand) {
  for (auto [start, size] : std::vector<std::pair<std::string_view, std::size_t>>{
           {"hf_", 34},        {"sk-", 48},      {"sk-proj-", 60},  {"sk-ant-api03-", 90},
           {"ghp_", 36},       {"gho_", 36},     {"ghs_", 36},      {"github_pat_", 60},
           {"glpat-", 20},     {"xoxb-", 40},    {"AIza", 35},      {"ya29.", 60},
           {"npm_", 36},       {"nvapi-", 60},   {"gsk_", 52},      {"r8_", 37},
           {"pypi-AgEI", 60},  {"dop_v1_", 64},  {"sk_live_", 24},  {"wandb_v1_", 40},
           {"SG.", 22},        {"api_org_", 34}, {"hvs.", 90},      {"xai-", 80},
           {"pplx-", 48},      {"shpat_", 32},   {"dckr_pat_", 27}, {"AGE-SECRET-KEY-1", 58},
           {"tskey-auth-", 40}}) {
    std::string secret = made_up(start, size);
    for (std::string around :
         {"{}", "x={}", "at {}, then", "\"{}\"", "({})", "a/{}/b", "{}\n", "{}."}) {
      std::size_t hole = around.find("{}");
      std::string text = std::string(around).replace(hole, 2, secret);
      std::string safe = without_secrets(text);
      EXPECT_EQ(safe, std::string(around).replace(hole, 2, "[hidden]")) << text;
    }
  }
}

TEST(Secrets, a_key_behind_an_underscore_or_a_dash_is_one) {
  std::string key = "hf_" + std::string("aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA");
  EXPECT_EQ(without_secrets("kernel_" + key), "kernel_[hidden]");
  EXPECT_EQ(without_secrets("trace-" + key + ".json"), "trace-[hidden]");
  EXPECT_EQ(without_secrets("qwen-sk-learn-2-instruct"), "qwen-sk-learn-2-instruct");
  EXPECT_EQ(without_secrets("triton_poi_fused_hf_attention_0"), "triton_poi_fused_hf_attention_0");
}

TEST(Secrets, aws_web_tokens_bearers_and_private_keys) {
  std::string id = "AKIA" + std::string("IOSFODNN7EXAMPLE");
  EXPECT_EQ(without_secrets("key " + id + " here"), "key [hidden] here");
  std::string web = "eyJ" + made_up("", 20) + ".eyJ" + made_up("", 30) + "." + made_up("", 40);
  EXPECT_EQ(without_secrets("jwt " + web), "jwt [hidden]");
  EXPECT_EQ(without_secrets("curl -H 'Authorization: Bearer " + made_up("", 24) + "'"),
            "curl -H 'Authorization: Bearer [hidden]'");
  EXPECT_EQ(without_secrets("Bearer " + made_up("", 24) + " sent"), "Bearer [hidden] sent");
  std::string pem = "-----BEGIN RSA PRIVATE" + std::string(" KEY-----\nMIIE\nabc\n-----END RSA");
  EXPECT_EQ(without_secrets(pem + " x"), "-----BEGIN RSA PRIVATE KEY-----[hidden]-----END RSA x");
}

TEST(Secrets, passwords_in_urls) {
  EXPECT_EQ(without_secrets("https://me:pa55@mlflow.example:5000/api"),
            "https://me:[hidden]@mlflow.example:5000/api");
  EXPECT_EQ(without_secrets("postgres://u:p@ss@db/x and redis://:word@h"),
            "postgres://u:[hidden]@db/x and redis://:[hidden]@h");
  EXPECT_EQ(without_secrets("git clone https://" + made_up("ghp_", 36) + ":x-oauth-basic@h/r"),
            "git clone https://[hidden]@h/r");
  EXPECT_EQ(without_secrets("https://" + made_up("hf_", 34) + "@h/r"), "https://[hidden]@h/r");
  for (const char* plain :
       {"https://example.com:8080/a@b", "https://me@example.com/x", "http://[::1]:80/",
        "s3://bucket/key:with@at", "tcp://10.0.0.1:29500", "https://me:$PASSWORD@example.com"}) {
    EXPECT_EQ(without_secrets(plain), plain);
  }
}

TEST(Secrets, addresses_that_let_anyone_post) {
  EXPECT_EQ(without_secrets("https://hooks.slack.com/services/T012/B345/" + made_up("", 24)),
            "https://hooks.slack.com/services/[hidden]");
  EXPECT_EQ(without_secrets("{\"url\":\"https://discord.com/api/webhooks/12/" + made_up("", 68) +
                            "\",\"x\":1}"),
            "{\"url\":\"https://discord.com/api/webhooks/[hidden]\",\"x\":1}");
  EXPECT_EQ(without_secrets("https://x.com/services/T012"), "https://x.com/services/T012");
  EXPECT_EQ(without_secrets("https://hooks.slack.com/"), "https://hooks.slack.com/");
}

TEST(Secrets, values_behind_names_of_secrets) {
  for (auto [text, safe] : std::vector<std::pair<std::string, std::string>>{
           {"HF_TOKEN=abcdef123456", "HF_TOKEN=[hidden]"},
           {"export WANDB_API_KEY=" + std::string(40, 'a') + "1; python x.py",
            "export WANDB_API_KEY=[hidden]; python x.py"},
           {"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG+bPxR", "AWS_SECRET_ACCESS_KEY=[hidden]"},
           {"AWS_ACCESS_KEY_ID=abc1", "AWS_ACCESS_KEY_ID=[hidden]"},
           {"--api-key=q1", "--api-key=[hidden]"},
           {"--db.password=1234", "--db.password=[hidden]"},
           {"trainer.hub_token=abcdefgh1", "trainer.hub_token=[hidden]"},
           {"\"OPENAI_API_KEY\": \"x1\", \"b\": 1", "\"OPENAI_API_KEY\": \"[hidden]\", \"b\": 1"},
           {"password: hunter2", "password: [hidden]"},
           {"https://h/x?sig=abc123def456&y=2", "https://h/x?sig=[hidden]&y=2"},
           {"https://h/x?access_token=abc123def&y=2", "https://h/x?access_token=[hidden]&y=2"},
           {"AccountKey=abcd1234==;EndpointSuffix=x", "AccountKey=[hidden];EndpointSuffix=x"},
           {"clientSecret='s p'", "clientSecret='[hidden]'"},
           {"MYSQL_PWD=root", "MYSQL_PWD=[hidden]"},
           {"PGPASSWORD=abc", "PGPASSWORD=[hidden]"},
           {"SPRING_DATASOURCE_DBPASSWORD=abc", "SPRING_DATASOURCE_DBPASSWORD=[hidden]"},
           {"DB_PASS=abc", "DB_PASS=[hidden]"},
           {"smtp.pass: abc1", "smtp.pass: [hidden]"},
           {"--accesstoken=q1w2e3r4t5", "--accesstoken=[hidden]"},
           {"SSHPASS=abc1def2", "SSHPASS=[hidden]"},
           {"python x.py --api-key abc1 --lr 3", "python x.py --api-key [hidden] --lr 3"},
           {"a --password 'p q' b", "a --password '[hidden]' b"},
           {"a --hf_token abc12345; b", "a --hf_token [hidden]; b"},
           {"--secret x1", "--secret [hidden]"}}) {
    EXPECT_EQ(without_secrets(text), safe);
  }
}

TEST(Secrets, variables_that_hold_keys_under_other_names) {
  std::string key = made_up("", 32);
  for (std::string name : {"KAGGLE_KEY", "SLACK_WEBHOOK", "SLACK_WEBHOOK_URL", "SENTRY_DSN"}) {
    EXPECT_EQ(without_secrets(name + "=" + key), name + "=[hidden]");
  }
  EXPECT_EQ(
      without_secrets("DOCKER_AUTH_CONFIG={\"auths\":{\"r\":{\"auth\":\"dXNlcjpwYXNzdw==\"}}}"),
      "DOCKER_AUTH_CONFIG={\"auths\":{\"r\":{\"auth\":\"[hidden]\"}}}");
  EXPECT_EQ(without_secrets("https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/2"),
            "https://[hidden]@o1.ingest.sentry.io/2");
  for (std::string plain :
       {"cache_key=" + key, "SORT_KEY=" + key, std::string("MODEL_URL=https://h/a1b2c3d4e5")}) {
    EXPECT_EQ(without_secrets(plain), plain);
  }
}

TEST(Secrets, text_without_a_secret_stays_as_it_is) {
  for (const char* plain :
       {"meta-llama/Llama-3.1-8B-Instruct",
        "hf_transformers",
        "hf-internal-testing/tiny-random-LlamaForCausalLM",
        "sk-learn",
        "scikit-learn-1.5.0",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
        "/home/me/.cache/huggingface/token",
        "--max_new_tokens=128",
        "--max-tokens 4096",
        "eos_token=<|endoftext|>",
        "pad_token_id=151643",
        "--pad_token=0",
        "stop_token=END12345678",
        "tokens=8192",
        "tokenizer=gpt2-medium-2019x",
        "TOKENIZERS_PARALLELISM=false",
        "PWD=/opt/secret9",
        "first_pass=12345678a",
        "a --password --other",
        "a --token",
        "--max-tokens 12345678a",
        "--eos_token endoftext123",
        "forward_pass=12345678a",
        "subtoken=abc12345678",
        "OLDPWD=/tmp/a1b2c3d4e5",
        "use_auth_token=True",
        "--token=$HF_TOKEN",
        "HF_TOKEN=xxxxxxxxxxxxxxxxxxxx",
        "api_key=None",
        "--credentials=/etc/keys/gcp.json",
        "private_key=id_rsa.pem",
        "token_type_ids=int64",
        "aten::scaled_dot_product_attention",
        "def login(self, password: str) -> None",
        "monkey=banana12345678",
        "keyboard: qwerty1234",
        "cu_seqlens_k=12345678",
        "num_key_value_heads=8",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "void at::native::vectorized_elementwise_kernel<4, "
        "at::native::CUDAFunctor_add<float>>(int)",
        "python3 -m torch.distributed.run --nproc-per-node=8 train.py --lr=1e-4",
        "hf_hub_download",
        "AKIA",
        "eyJ",
        "Bearer of bad news",
        "wandb.init(project='x', name='run-12')"}) {
    EXPECT_EQ(without_secrets(plain), plain);
  }
}

TEST(Secrets, command_lines_hide_the_word_behind_an_option) {
  using Words = std::vector<std::string>;
  std::string key = made_up("", 40);
  EXPECT_EQ(without_secrets(Words{"python", "t.py", "--api-key", key, "--lr", "1"}),
            (Words{"python", "t.py", "--api-key", "[hidden]", "--lr", "1"}));
  EXPECT_EQ(without_secrets(Words{"x", "--password", "1234"}),
            (Words{"x", "--password", "[hidden]"}));
  EXPECT_EQ(without_secrets(Words{"env", "HF_TOKEN=" + key, "python", "t.py"}),
            (Words{"env", "HF_TOKEN=[hidden]", "python", "t.py"}));
  EXPECT_EQ(without_secrets(Words{"bash", "-c", "WANDB_API_KEY=" + key + " python t.py"}),
            (Words{"bash", "-c", "WANDB_API_KEY=[hidden] python t.py"}));
  EXPECT_EQ(without_secrets(Words{"wandb", "login", std::string(40, 'b') + "2"}),
            (Words{"wandb", "login", "[hidden]"}));
  EXPECT_EQ(without_secrets(Words{"sshpass", "-p", "word", "ssh", "-p", "22"}),
            (Words{"sshpass", "-p", "[hidden]", "ssh", "-p", "22"}));
  EXPECT_EQ(without_secrets(Words{"x", "--pw", "word", "--jwt", made_up("", 20)}),
            (Words{"x", "--pw", "[hidden]", "--jwt", "[hidden]"}));
  EXPECT_EQ(without_secrets(Words{"curl", "-u", "me:pass", "h"}),
            (Words{"curl", "-u", "[hidden]", "h"}));
  EXPECT_EQ(without_secrets(Words{"http", "--user", "me:pass", "h"}),
            (Words{"http", "--user", "[hidden]", "h"}));
  EXPECT_EQ(without_secrets(Words{"/usr/bin/mysql", "-uroot", "-pword"}),
            (Words{"/usr/bin/mysql", "-uroot", "-p[hidden]"}));
  EXPECT_EQ(without_secrets(Words{"t", "trainer.logger.token", key, "--report-key", key}),
            (Words{"t", "trainer.logger.token", "[hidden]", "--report-key", "[hidden]"}));
  for (Words plain :
       {Words{"python", "-u", "train.py"}, Words{"t", "--token", "--lr", "1"},
        Words{"t", "--eos-token", "abcdefgh12345"}, Words{"t", "--max-tokens", "40960000"},
        Words{"t", "--use-auth-token", "True"}, Words{"t", "--model", "gpt2"}, Words{},
        Words{"docker", "run", "--user", "app:staff", "i"}, Words{"t", "-u", "0:0"},
        Words{"t", "-p8080"}, Words{"t", "--sort-key", "created_at_2024_01_01"},
        Words{"pytest", "tests/test_a.token", "x1y2z3x1y2z3"}}) {
    EXPECT_EQ(without_secrets(plain), plain);
  }
}

// Laws: hiding twice changes nothing more, and the places found lie inside the text, in order.
TEST(Secrets, any_bytes_are_taken_and_hiding_twice_changes_nothing) {
  std::mt19937 generator(1);
  const std::string pieces[] = {"hf_",
                                "sk-",
                                "=",
                                ":",
                                "://",
                                "@",
                                "token",
                                "password",
                                "\"",
                                "'",
                                " ",
                                "eyJ",
                                ".",
                                "-----BEGIN ",
                                "PRIVATE KEY-----",
                                "Bearer ",
                                "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0",
                                "\xff",
                                "api_key",
                                "-",
                                "\n",
                                "AKIA",
                                "$",
                                "["};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = generator() % 12; n > 0; --n)
      text += pieces[generator() % std::size(pieces)];
    std::size_t last = 0;
    for (const Secret& secret : find_secrets(text)) {
      ASSERT_GE(secret.begin, last);
      ASSERT_GT(secret.size, 0u);
      last = secret.begin + secret.size;
      ASSERT_LE(last, text.size());
    }
    std::string once = without_secrets(text);
    EXPECT_EQ(without_secrets(once), once) << text;
  }
}

}  // namespace
}  // namespace mfu
