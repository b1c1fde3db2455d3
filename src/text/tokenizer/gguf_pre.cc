#include "text/tokenizer/gguf_pre.h"

#include "text/tokenizer/split_patterns.h"

namespace bora::text {
namespace {

constexpr std::string_view kDigit = "";
constexpr std::string_view kGpt2 = kGpt2Pattern;
constexpr std::string_view kLlama3 = kThreeDigitsPattern;
constexpr std::string_view kQwen2 = kOneDigitPattern;
constexpr std::string_view kQwen35 = kOneDigitMarksPattern;
constexpr std::string_view kO200k = kO200kPattern;
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeNumbers = kCjkNumbers;
constexpr std::string_view kCjk = kCjkRuns;
constexpr std::string_view kDeepseekMain = kCjkMain;
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|)"
    R"(\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kKimi =
    R"([\p{Han}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han)"
    R"(}]]+(?i:'s)"
    R"(|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han)"
    R"(}]]*(?i:'s)"
    R"(|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kNoContraction =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutuScripts =
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+";
constexpr std::string_view kYoutuMain =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|)"
    R"('re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|)"
    R"('re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSpark =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+|[\r\n]"
    "|\\s+(?!\\S)|\\s+";
constexpr std::string_view kDeepseekLlmLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-)"
    R"(ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ)"
    R"(\x{1F5F}-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌ\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}ῠ-Ῥ)"
    R"(ῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-\x{212D}ℯ-ℴℹℼ-ℿⅅ-ⅉⅎ)"
    R"(ↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚ)"
    R"(ａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr std::string_view kDeepseekLlmCjk = "[一-龥ࠀ-一가-퟿]+";
constexpr std::string_view kAfmoeScripts =
    "[一-鿿㐀-䶿\uF900-\uFAFF\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2FDFเ-๿\u0E80-\u0EFFក-\u17FFက-႟ꩠ-ꩿꧠ-\uA9FF가-"
    "\uD7AFᄀ-"
    "ᇿ]"
    "+";

const std::vector<GgufPre>& first_table() {
  static const std::vector<GgufPre> list = {
      // name, stages, nfc, ignore_merges, add_bos, wraps_in_sep
      {"gpt-2", {kGpt2}},
      {"phi-2", {kGpt2}},
      {"jina-es", {kGpt2}},
      {"jina-de", {kGpt2}},
      {"jina-v2-es", {kGpt2}},
      {"jina-v2-de", {kGpt2}},
      {"gigachat", {kGpt2}},
      {"a.x-4.0", {kGpt2}},
      {"mellum", {kGpt2}},
      {"modern-bert", {kGpt2}},
      {"exaone4", {kGpt2}},
      {"mpt", {kGpt2}},
      {"olmo", {kGpt2}},
      {"jais", {kGpt2}},
      {"trillion", {kGpt2}},
      {"granite-docling", {kGpt2}},
      {"jina-v1-en", {kGpt2}, false, false, false, true},
      {"jina-v2-code", {kGpt2}, false, false, false, true},
      {"roberta-bpe", {kGpt2}, false, false, false, true},
      {"smollm", {kDigit, kGpt2}},
      {"starcoder", {kDigit, kGpt2}},
      {"refact", {kDigit, kGpt2}},
      {"command-r", {kDigit, kGpt2}, true},
      {"codeshell", {kDigit, kGpt2}},
      {"exaone", {kDigit, kGpt2}},
      {"minerva-7b", {kDigit, kGpt2}},
      {"mellum2", {kDigit, kGpt2}},
      {"llama3", {kLlama3}, false, true, true},
      {"llama-v3", {kLlama3}, false, true, true},
      {"llama-bpe", {kLlama3}, false, true, true},
      {"falcon3", {kLlama3}, false, true, true},
      {"falcon-h1", {kLlama3}, false, true, true},
      {"pixtral", {kLlama3}, false, true, true},
      {"midm-2.0", {kLlama3}, false, true, true},
      {"lfm2", {kLlama3}, false, true, true},
      {"jina-v5-nano", {kLlama3}, false, true, true},
      {"dbrx", {kLlama3}},
      {"smaug-bpe", {kLlama3}},
      {"glm4", {kLlama3}},
      {"chatglm-bpe", {kLlama3}},
      {"jais-2", {kJais2}},
  };
  return list;
}

const std::vector<GgufPre>& second_table() {
  static const std::vector<GgufPre> list = {
      {"qwen2", {kQwen2}, true},
      {"deepseek-r1-qwen", {kQwen2}, true},
      {"kormo", {kQwen2}},
      {"f2llmv2", {kQwen2}, true},
      {"megrez", {kQwen2}},
      {"stablelm2", {kQwen2}},
      {"hunyuan", {kQwen2}},
      {"solar-open", {kQwen2}},
      {"grok-2", {kQwen2}},
      {"laguna", {R"([^\n]+|[\n]+)", kQwen2}},
      {"qwen35", {kQwen35}, true},
      {"ufakzeka", {kNoContraction}},
      {"gpt-4o", {kO200k}},
      {"llama4", {kO200k}},
      {"kanana2", {kO200k}},
      {"talkie", {kO200k}},
      {"minimax-m2", {kO200k}},
      {"granite-embed-multi-97m", {kO200k}, false, true},
      {"tiny_aya", {R"(\d{1,3}(?=(?:\d{3})*\b))", kO200k}},
      {"cohere2moe", {R"(\d{1,3}(?=(?:\d{3})*\b))", kO200k}},
      {"tekken", {kTekken}, false, true, true},
      {"deepseek-v3", {kThreeNumbers, kCjk, kDeepseekMain}},
      {"hunyuan-dense", {kThreeNumbers, kCjk, kDeepseekMain}},
      {"joyai-llm", {kThreeNumbers, kCjk, kDeepseekMain}},
      {"hy_v4", {kThreeNumbers, kCjk, kDeepseekMain}},
      {"spark2_5", {kThreeNumbers, kCjk, kSpark, R"(\p{N})"}},
      {"youtu", {kYoutuScripts, kYoutuMain}, false, true},
      {"deepseek-llm",
       {"[\r\n]", kDeepseekLlmLetters, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)", kDeepseekLlmCjk, R"(\p{N}+)"}},
      {"deepseek-coder", {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekLlmCjk, R"(\p{N})"}},
      {"falcon", {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
      {"poro-chat", {kBloom}},
      {"bloom", {kBloom}},
      {"gpt3-finnish", {kBloom}},
      {"viking", {kBloom, R"(\p{N})"}},
      {"chameleon",
       {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"(([\t\n]|    |  ))", R"(\p{N})",
        R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
       false,
       false,
       true},
      {"superbpe", {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
      {"bailingmoe", {kBailing}},
      {"bailingmoe2", {kBailing}},
      {"llada-moe", {kBailing}},
      {"seed-coder", {kSeedCoder}},
      {"kimi-k2", {kKimi}},
      {"exaone-moe", {kExaoneMoe}},
      {"minicpm5", {kThreeNumbers, kMiniCpm5}, false, true},
      {"afmoe", {R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))", kAfmoeScripts, kDeepseekMain}},
      {"default", {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
  };
  return list;
}

}  // namespace

const std::string_view kGgufScoredBpe = "llama", kGgufSpaceMarkedBpe = "gemma4";

bool is_space_marked_pre(std::string_view name) {
  return name == "gemma4" || name == "granite-embed-multi-311m" || name == "sarvam-moe";
}

const GgufPre* find_gguf_pre(std::string_view name) {
  for (const auto* table : {&first_table(), &second_table()}) {
    for (const GgufPre& p : *table) {
      if (p.name == name) return &p;
    }
  }
  return nullptr;
}

std::vector<std::string_view> gguf_pre_names() {
  std::vector<std::string_view> names;
  for (const auto* table : {&first_table(), &second_table()}) {
    for (const GgufPre& p : *table) names.push_back(p.name);
  }
  return names;
}

}  // namespace bora::text
