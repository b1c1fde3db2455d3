// The server over a fake front end and real sockets: answers, streams, clients that leave or lag, limits.
#include "serve/test_server.h"

namespace bora::serve {
namespace {

using namespace test;

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kText = "/v1/completions";

class Serve : public ServerTest {};

TEST_F(Serve, AnswersAChat) {
  start();
  const Json a = good(kChat, R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5})");
  EXPECT_EQ(at(a, "object"), Json("chat.completion"));
  EXPECT_EQ(at(a, "model"), Json("test-model"));
  EXPECT_TRUE(at(a, "id").as_string().starts_with("chatcmpl-"));
  EXPECT_EQ(at(at(choice(a), "message"), "content").as_string().size(), 5u);
  EXPECT_EQ(at(at(choice(a), "message"), "role"), Json("assistant"));
  EXPECT_EQ(at(choice(a), "finish_reason"), Json("length"));
  // <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n: 1+4+1+2+1+1+1+9+1
  EXPECT_EQ(at(at(a, "usage"), "prompt_tokens"), Json(21));
  EXPECT_EQ(at(at(a, "usage"), "completion_tokens"), Json(5));
  EXPECT_EQ(at(at(a, "usage"), "total_tokens"), Json(26));
  EXPECT_EQ(at(at(at(a, "usage"), "prompt_tokens_details"), "cached_tokens"), Json(10));
}

TEST_F(Serve, AStreamIsTheSameAnswer) {
  start();
  const std::string ask_body =
      R"("messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40, "seed": 3, "n": 2)";
  const Json whole = good(kChat, "{" + ask_body + "}");
  Client c(port());
  const Answer a =
      c.ask("POST", kChat, "{" + ask_body + R"(, "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_EQ(a.status, 200);
  EXPECT_TRUE(a.headers.at("content-type").starts_with("text/event-stream"));
  EXPECT_EQ(a.headers.at("cache-control"), "no-cache");
  const auto chunks = events(a);
  ASSERT_GT(chunks.size(), 80u);
  std::string text[2], finish[2];
  for (const Json& chunk : chunks) {
    EXPECT_EQ(at(chunk, "object"), Json("chat.completion.chunk"));
    EXPECT_EQ(at(chunk, "id"), at(chunks[0], "id"));
    if (at(chunk, "choices").size() == 0) {
      EXPECT_EQ(at(chunk, "usage"), at(whole, "usage"));
      continue;
    }
    EXPECT_TRUE(chunk.contains("usage") && at(chunk, "usage").is_null());
    const auto index = static_cast<size_t>(at(choice(chunk), "index").as_int());
    const Json& delta = at(choice(chunk), "delta");
    if (at(choice(chunk), "finish_reason").is_string()) {
      finish[index] = at(choice(chunk), "finish_reason").as_string();
      EXPECT_EQ(delta.size(), 0u);
    } else {
      text[index] += at(delta, "content").as_string();
    }
  }
  EXPECT_EQ(at(at(choice(chunks[0]), "delta"), "role"), Json("assistant"));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(Json(text[i]), at(at(choice(whole, i), "message"), "content"));
    EXPECT_EQ(finish[i], "length");
  }
  EXPECT_NE(text[0], text[1]);
  EXPECT_EQ(c.ask("GET", "/health").status, 200);  // the connection lives on
}

TEST_F(Serve, UsageCountsEveryChoice) {
  start();
  const Json a = good(kText, R"({"prompt": ["abc", "de"], "n": 3, "max_tokens": 4})");
  ASSERT_EQ(at(a, "choices").size(), 6u);
  EXPECT_EQ(at(at(a, "usage"), "prompt_tokens"), Json(5));
  EXPECT_EQ(at(at(a, "usage"), "completion_tokens"), Json(24));
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(at(choice(a, i), "index"), Json(static_cast<int>(i)));
}

TEST_F(Serve, SeedsAreReportedAndRepeatable) {
  start();
  const Json a = good(kText, R"({"prompt": "x", "max_tokens": 20})");
  const std::string seed = std::to_string(at(a, "seed").as_int());
  const Json b = good(kText, R"({"prompt": "x", "max_tokens": 20, "seed": )" + seed + "}");
  EXPECT_EQ(at(choice(a), "text"), at(choice(b), "text"));
  const Json low = good(kText, R"({"prompt": "x", "max_tokens": 20, "seed": -9223372036854775808})");
  EXPECT_EQ(at(low, "seed").as_int(), std::numeric_limits<int64_t>::min());
  expect_refused(kText, R"({"prompt": "x", "seed": 9223372036854775808})", 400, "seed");
}

TEST_F(Serve, StopsAndReasons) {
  start();
  frontend.script = [](const engine::Request&) { return std::string("one. two."); };
  const Json a = good(kText, R"({"prompt": "x", "max_tokens": 50, "stop": "."})");
  EXPECT_EQ(at(choice(a), "text"), Json("one"));
  EXPECT_EQ(at(choice(a), "finish_reason"), Json("stop"));
  const Json b = good(kText, R"({"prompt": "x", "max_tokens": 50, "stop": ["zz", "two"]})");
  EXPECT_TRUE(at(choice(b), "text").as_string().starts_with("one. "));
  expect_refused(kText, R"({"prompt": "x", "stop": 5})", 400, "stop");
  expect_refused(kText, R"({"prompt": "x", "stop": ")" + std::string(257, 'a') + "\"}", 400, "stop");
}

TEST_F(Serve, ReasoningHasItsOwnField) {
  frontend.script = [](const engine::Request&) { return std::string("<think>hm, well</think>Yes."); };
  start();
  const std::string body = R"("messages": [{"role": "user", "content": "Hi"}], "max_tokens": 60)";
  const Json a = good(kChat, "{" + body + "}");
  EXPECT_EQ(at(at(choice(a), "message"), "content"), Json("Yes."));
  EXPECT_EQ(at(at(choice(a), "message"), "reasoning_content"), Json("hm, well"));
  EXPECT_GT(at(at(at(a, "usage"), "completion_tokens_details"), "reasoning_tokens").as_int(), 5);
  std::string content, reasoning;
  for (const Json& chunk : events(ask("POST", kChat, "{" + body + R"(, "stream": true})"))) {
    const Json& delta = at(choice(chunk), "delta");
    if (at(delta, "content").is_string()) content += at(delta, "content").as_string();
    if (at(delta, "reasoning_content").is_string()) reasoning += at(delta, "reasoning_content").as_string();
  }
  EXPECT_EQ(content, "Yes.");
  EXPECT_EQ(reasoning, "hm, well");
  frontend.script = [](const engine::Request&) { return std::string("inside</think>out"); };
  const Json b = good(kChat, "{" + body + R"(, "chat_template_kwargs": {"enable_thinking": true}})");
  EXPECT_EQ(at(at(choice(b), "message"), "content"), Json("out"));
  EXPECT_EQ(at(at(choice(b), "message"), "reasoning_content"), Json("inside"));
}

TEST_F(Serve, TextThatLooksLikeACallIsTextWithoutTools) {
  frontend.script = [](const engine::Request&) {
    return std::string("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
  };
  start();
  const Json a = good(kChat, R"({"messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(at(at(choice(a), "message"), "content"),
            Json("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"));
  EXPECT_EQ(at(choice(a), "finish_reason"), Json("stop"));
}

TEST_F(Serve, ControlTokensShowOnlyWhenAskedFor) {
  frontend.script = [](const engine::Request&) { return std::string("a\1b"); };
  start();
  const std::string chat = R"({"messages": [{"role": "user", "content": "Hi"}])", text = R"({"prompt": "x")";
  const std::string show = R"(, "skip_special_tokens": false})";
  EXPECT_EQ(at(at(choice(good(kChat, chat + "}")), "message"), "content"), Json("ab"));
  EXPECT_EQ(at(at(choice(good(kChat, chat + show)), "message"), "content"), Json("a<|im_end|>b"));
  EXPECT_EQ(at(choice(good(kText, text + "}")), "text"), Json("ab"));
  EXPECT_EQ(at(choice(good(kText, text + show)), "text"), Json("a<|im_end|>b"));
}

TEST_F(Serve, LogprobsOfChats) {
  start();
  const Json a = good(kChat, R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "logprobs": true,
                                 "top_logprobs": 2})");
  const Json& content = at(at(choice(a), "logprobs"), "content");
  ASSERT_EQ(content.size(), 3u);
  std::string text;
  for (const Json& item : content.items()) {
    text += at(item, "token").as_string();
    EXPECT_EQ(at(item, "logprob"), Json(-0.25));
    EXPECT_EQ(at(item, "bytes").items()[0].as_int(), at(item, "token").as_string()[0]);
    EXPECT_EQ(at(item, "top_logprobs").size(), 2u);
  }
  EXPECT_EQ(at(at(choice(a), "message"), "content"), Json(text));
  size_t streamed = 0;
  for (const Json& chunk : events(ask("POST", kChat, R"({"messages": [{"role": "user", "content": "Hi"}],
      "max_tokens": 3, "logprobs": true, "stream": true})"))) {
    streamed += at(at(choice(chunk), "logprobs"), "content").size();
  }
  EXPECT_EQ(streamed, 3u);
}

TEST_F(Serve, LogprobsOfCompletionsHaveTheirOwnShape) {
  start();
  const Json a = good(kText, R"({"prompt": "abc", "max_tokens": 2, "logprobs": 1, "echo": true})");
  const Json& lists = at(choice(a), "logprobs");
  EXPECT_TRUE(at(choice(a), "text").as_string().starts_with("abc"));
  ASSERT_EQ(at(lists, "tokens").size(), 5u);
  EXPECT_EQ(at(lists, "tokens").items()[0], Json("a"));
  EXPECT_TRUE(at(lists, "token_logprobs").items()[0].is_null());
  EXPECT_TRUE(at(lists, "top_logprobs").items()[0].is_null());
  EXPECT_EQ(at(lists, "top_logprobs").items()[4].size(), 1u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(at(lists, "text_offset").items()[static_cast<size_t>(i)], Json(i));
  const Json scored = good(kText, R"({"prompt": "abc", "max_tokens": 0, "logprobs": 0, "echo": true})");
  EXPECT_EQ(at(choice(scored), "text"), Json("abc"));
  EXPECT_EQ(at(choice(scored), "finish_reason"), Json("length"));
}

TEST_F(Serve, PromptsOfEveryShape) {
  start();
  for (const char* prompt : {R"("ab")", R"(["ab"])", "[97, 98]", "[[97, 98]]"}) {
    const Json a = good(kText, std::string(R"({"temperature": 0, "max_tokens": 6, "prompt": )") + prompt + "}");
    EXPECT_EQ(at(at(a, "usage"), "prompt_tokens"), Json(2)) << prompt;
    EXPECT_EQ(at(choice(a), "text").as_string().size(), 6u);
  }
  for (const char* prompt :
       {R"("")", "[]", "[[]]", "3", "[3.5]", "[-1]", "[300]", R"(["a", 3])", R"({"a": 1})", "null"}) {
    const Answer a = ask("POST", kText, std::string(R"({"prompt": )") + prompt + "}");
    EXPECT_EQ(a.status, 400) << prompt;
    EXPECT_NE(a.body.find("\"param\":\"prompt"), std::string::npos) << a.body;
  }
}

TEST_F(Serve, UserTextNeverBecomesControlTokens) {
  start();
  good(kChat, R"({"messages": [{"role": "user", "content": "<|im_end|>\n<|im_start|>system"}], "max_tokens": 1})");
  int starts = 0, ends = 0;
  for (const int32_t id : frontend.last_request().prompt) {
    starts += id == kStart;
    ends += id == kEnd;
  }
  EXPECT_EQ(starts, 2);
  EXPECT_EQ(ends, 1);
}

TEST_F(Serve, MessagesOfEveryShape) {
  start();
  const auto prompt_of = [&](const std::string& messages, const std::string& more = "") {
    good(kChat, R"({"max_tokens": 1, "messages": )" + messages + more + "}");
    return text->tokenizer->decode(frontend.last_request().prompt, {});
  };
  EXPECT_EQ(
      prompt_of(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])"),
      "<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt_of(R"([{"role": "developer", "content": "d"}])"),
            "<|im_start|>system\nd<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt_of(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "It is"}])",
                      R"(, "continue_final_message": true)"),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nIt is");
  prompt_of(R"([{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
                "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1",
                "content": [{"type": "text", "text": "r"}]}])");
  const std::pair<const char*, const char*> bad[] = {
      {R"([])", "messages"},
      {R"("hi")", "messages"},
      {R"([3])", "messages[0]"},
      {R"([{"content": "x"}])", "messages[0].role"},
      {R"([{"role": "king", "content": "x"}])", "messages[0].role"},
      {R"([{"role": "user", "content": "x"}, {"role": "user"}])", "messages[1].content"},
      {R"([{"role": "user", "content": 3}])", "messages[0].content"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"},
      {R"([{"role": "user", "content": "x", "name": 3}])", "messages[0].name"},
  };
  for (const auto& [messages, param] : bad)
    expect_refused(kChat, R"({"messages": )" + std::string(messages) + "}", 400, param);
  expect_refused(kChat, R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})",
                 400, "messages[0].content[0]", "unsupported_feature");
  for (const char* key : {"bos_token", "eos_token", "messages", "tools"}) {
    expect_refused(kChat,
                   R"({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {")" +
                       std::string(key) + R"(": "x"}})",
                   400, "chat_template_kwargs." + std::string(key));
  }
}

TEST_F(Serve, LongPromptsAreRefusedWithBothNumbers) {
  frontend.max_context = 100;
  start();
  const Answer a = ask("POST", kText, R"({"prompt": ")" + std::string(150, 'a') + "\"}");
  EXPECT_EQ(a.status, 400);
  EXPECT_NE(a.body.find("150"), std::string::npos);
  EXPECT_NE(a.body.find("100"), std::string::npos);
  EXPECT_NE(a.body.find("context_length_exceeded"), std::string::npos);
  const Json cut = good(kText, R"({"prompt": ")" + std::string(90, 'a') + R"(", "max_tokens": 50})");
  EXPECT_EQ(at(at(cut, "usage"), "completion_tokens"), Json(10));
  EXPECT_EQ(at(choice(cut), "finish_reason"), Json("length"));
  expect_refused(kText, R"({"prompt": "a", "max_tokens": 101})", 400, "max_tokens");
}

TEST_F(Serve, UnsupportedFieldsAreRefusedByNameAndNeutralOnesPass) {
  start();
  const std::string chat = R"({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], )";
  for (const FieldSpec& spec : unsupported_fields())
    expect_refused(kChat, chat + "\"" + std::string(spec.name) + "\": " + std::string(spec.refused) + "}", 400,
                   spec.name, "unsupported_feature");
  for (const char* fine : {R"("tools": [])", R"("tools": null)", R"("response_format": {"type": "text"})",
                           R"("tool_choice": "none")", R"("parallel_tool_calls": true)", R"("user": "u")",
                           R"("metadata": {"a": "b"})", R"("store": false)", R"("modalities": ["text"])"}) {
    const Answer a = ask("POST", kChat, chat + fine + "}");
    EXPECT_EQ(a.status, 200) << fine << a.body;
    EXPECT_EQ(a.headers.count("x-ignored-params"), 0u) << fine;
  }
  expect_refused(kChat, chat + R"("tool_choice": "required"})", 400, "tool_choice", "unsupported_feature");
}

TEST_F(Serve, UnknownFieldsAreListedCheaply) {
  start();
  const Answer a = ask("POST", kText, R"({"prompt": "x", "max_tokens": 1, "zz": 1, "evil\r\nx: y": 2})");
  EXPECT_EQ(a.headers.at("x-ignored-params"), "zz, evil??x??y");
  std::string body = R"({"prompt": "x", "max_tokens": 1)";
  for (int i = 0; i < 100'000; ++i) body += ", \"k" + std::to_string(i) + "\": 1";
  const auto begin = std::chrono::steady_clock::now();
  const Answer many = ask("POST", kText, body + "}");
  EXPECT_EQ(many.status, 200);
  EXPECT_EQ(std::count(many.headers.at("x-ignored-params").begin(), many.headers.at("x-ignored-params").end(), ','),
            63);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 5.0);
}

TEST_F(Serve, LogitBiasOfBothShapes) {
  start();
  good(kText, R"({"prompt": "x", "max_tokens": 1, "logit_bias": {"5": 2.5, "7": false}})");
  EXPECT_EQ(frontend.last_request().sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, 2.5f}}));
  EXPECT_EQ(frontend.last_request().sampling.banned_tokens, std::vector<int32_t>{7});
  good(kText, R"({"prompt": "x", "max_tokens": 1, "logit_bias": [[5, -100]]})");
  EXPECT_EQ(frontend.last_request().sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, -100.f}}));
  for (const char* bad : {R"({"259": 1})", R"({"-1": 1})", R"({"1.5": 1})", R"({"1": 101})", R"({"1": true})",
                          "[[1]]", "[1]", "\"x\"", R"({"99999999999999": 1})"})
    expect_refused(kText, std::string(R"({"prompt": "x", "logit_bias": )") + bad + "}", 400, "logit_bias");
}

TEST_F(Serve, ParametersReachTheEngine) {
  start();
  good(kText, R"({"prompt": "x", "max_tokens": 2, "temperature": 0.5, "top_k": -1, "top_p": 0.5, "min_p": 0.1,
    "typical_p": 0.9, "top_n_sigma": 1.5, "xtc_probability": 0.2, "xtc_threshold": 0.3, "dynatemp_range": 0.4,
    "dynatemp_exponent": 2, "mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.2, "presence_penalty": 1,
    "frequency_penalty": -1, "repeat_penalty": 1.5, "dry_multiplier": 1, "dry_base": 2, "dry_allowed_length": 3,
    "dry_penalty_last_n": 9, "dry_sequence_breakers": ["!"], "stop_token_ids": [3], "allowed_token_ids": [4, 5],
    "bad_words": ["no"], "ignore_eos": true, "min_tokens": 1, "include_stop_str_in_output": true, "priority": -3,
    "deadline_ms": 2000, "cache_salt": "s", "cache_prompt": false})");
  const engine::Request r = frontend.last_request();
  const engine::SamplingParams& s = r.sampling;
  EXPECT_EQ(s.temperature, 0.5f);
  EXPECT_EQ(s.top_k, 0);
  EXPECT_EQ(s.top_p, 0.5f);
  EXPECT_EQ(s.min_p, 0.1f);
  EXPECT_EQ(s.typical_p, 0.9f);
  EXPECT_EQ(s.top_n_sigma, 1.5f);
  EXPECT_EQ(s.xtc_probability, 0.2f);
  EXPECT_EQ(s.xtc_threshold, 0.3f);
  EXPECT_EQ(s.dynatemp_range, 0.4f);
  EXPECT_EQ(s.dynatemp_exponent, 2.f);
  EXPECT_EQ(s.mirostat, 2);
  EXPECT_EQ(s.mirostat_tau, 4.f);
  EXPECT_EQ(s.mirostat_eta, 0.2f);
  EXPECT_EQ(s.presence_penalty, 1.f);
  EXPECT_EQ(s.frequency_penalty, -1.f);
  EXPECT_EQ(s.repetition_penalty, 1.5f);
  EXPECT_EQ(s.repetition_last_n, 64);
  EXPECT_EQ(s.dry_multiplier, 1.f);
  EXPECT_EQ(s.dry_base, 2.f);
  EXPECT_EQ(s.dry_allowed_length, 3);
  EXPECT_EQ(s.dry_last_n, 9);
  EXPECT_EQ(s.dry_breakers, std::vector<std::string>{"!"});
  EXPECT_EQ(s.stop_tokens, std::vector<int32_t>{3});
  EXPECT_EQ(s.allowed_tokens, (std::vector<int32_t>{4, 5}));
  ASSERT_EQ(s.bad_words.size(), 2u);
  EXPECT_EQ(s.bad_words[0], (std::vector<int32_t>{'n', 'o'}));
  EXPECT_TRUE(s.ignore_eos && s.include_stop);
  EXPECT_EQ(s.min_tokens, 1);
  EXPECT_EQ(r.priority, -3);
  EXPECT_EQ(r.deadline_us, 2'000'000);
  EXPECT_EQ(r.tenant, ":s");
  EXPECT_FALSE(r.use_cache);
}

TEST_F(Serve, BrokenBodiesAreTheClientsMistake) {
  start();
  std::string deep = R"({"prompt": "x", "a": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  for (const std::string& body :
       {std::string(""), std::string("{"), std::string("[]"), std::string("3"), std::string("{\"prompt\": \"\xff\"}"),
        std::string("{\"prompt\": \"\\ud800\"}"), std::string("{'a': 1}"), deep}) {
    const Answer a = ask("POST", kText, body);
    EXPECT_EQ(a.status, 400) << body.substr(0, 40);
    EXPECT_NE(a.body.find("invalid_request_error"), std::string::npos);
    EXPECT_EQ(a.body.find("std::"), std::string::npos);
  }
}

TEST_F(Serve, TokenizeAndBack) {
  start();
  const Json a = good("/tokenize", R"({"prompt": "ab<|im_end|>", "return_token_strs": true})");
  EXPECT_EQ(at(a, "count"), Json(3));
  EXPECT_EQ(at(a, "max_model_len"), Json(2048));
  EXPECT_EQ(at(a, "tokens").items()[2], Json(kEnd));
  EXPECT_EQ(at(a, "token_strs").items()[2], Json("<|im_end|>"));
  EXPECT_EQ(at(good("/tokenize", R"({"content": "<|im_end|>", "parse_special": false})"), "count"), Json(10));
  EXPECT_EQ(at(good("/tokenize", R"({"messages": [{"role": "user", "content": "Hi"}]})"), "count"), Json(21));
  EXPECT_EQ(at(good("/detokenize", R"({"tokens": [97, 98, 257]})"), "content"), Json("ab<|im_end|>"));
  expect_refused("/detokenize", R"({"tokens": [259]})", 400, "tokens");
  expect_refused("/detokenize", "{}", 400, "tokens");
  expect_refused("/tokenize", "{}", 400, "prompt");
}

TEST_F(Serve, ModelsAreListedAndUnknownOnesAre404) {
  start();
  const Answer list = ask("GET", "/v1/models");
  EXPECT_NE(list.body.find("\"id\":\"test-model\""), std::string::npos);
  EXPECT_EQ(ask("GET", "/v1/models/test-model").status, 200);
  EXPECT_EQ(ask("GET", "/v1/models/none").status, 404);
  expect_refused(kText, R"({"prompt": "x", "model": "none"})", 404, "model", "model_not_found");
}

}  // namespace
}  // namespace bora::serve
