#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/json.h"
#include "formats/checkpoint.h"

namespace bora::formats {
namespace {

// Writes a GGUF file piece by piece.
struct GgufWriter {
  std::string out;
  template <typename T>
  GgufWriter& put(T v) {
    out.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  GgufWriter& str(std::string_view s) {
    put(static_cast<uint64_t>(s.size()));
    out.append(s);
    return *this;
  }
  GgufWriter& header(uint32_t version, uint64_t tensors, uint64_t entries) {
    out.append("GGUF");
    return put(version).put(tensors).put(entries);
  }
  GgufWriter& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    str(name).put(static_cast<uint32_t>(dims.size()));
    for (uint64_t d : dims) put(d);
    return put(type).put(offset);
  }
  GgufWriter& align(size_t to, size_t more = 0) {
    out.resize((out.size() + to - 1) / to * to + more);
    return *this;
  }
};

std::string good_gguf() {
  GgufWriter w;
  w.header(3, 2, 5);
  w.str("general.architecture").put(8u).str("test");
  w.str("a.count").put(4u).put(7u);
  w.str("a.eps").put(6u).put(0.5f);
  w.str("a.list").put(9u).put(5u).put(uint64_t{3}).put(-1).put(2).put(3);
  w.str("a.words").put(9u).put(8u).put(uint64_t{2}).str("x").str("yz");
  w.tensor("t.f32", {4, 2}, 0, 0).tensor("t.q8", {32, 3}, 8, 32);
  return w.align(32, 32 + 3 * 34).out;
}

std::string safetensors_of(const std::string& header, size_t data) {
  const uint64_t n = header.size();
  std::string out(reinterpret_cast<const char*>(&n), 8);
  return out + header + std::string(data, '\1');
}

const char kGoodHeader[] =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})";

class Formats : public testing::Test {
 protected:
  Formats() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bora_formats_XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~Formats() override { std::filesystem::remove_all(dir_); }
  std::string write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  Status open_status(const std::string& name, const std::string& bytes) {
    return open_checkpoint(*files_, write(name, bytes)).status();
  }
  std::string dir_;
  std::unique_ptr<FileSystem> files_ = make_os_file_system();
};

TEST_F(Formats, GgufIsIndexed) {
  auto c = open_checkpoint(*files_, write("m.gguf", good_gguf()));
  ASSERT_TRUE(c.ok()) << c.status().message();
  ASSERT_EQ((*c)->tensors().size(), 2u);
  const TensorEntry* q = (*c)->find("t.q8");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->shape, (Shape{3, 32}));
  EXPECT_EQ(q->scheme->name, "q8_0");
  EXPECT_EQ((*c)->bytes(*q).size(), 102u);
  EXPECT_EQ((*c)->metadata("a.count")->as_int(), 7);
  EXPECT_EQ((*c)->metadata("a.eps")->as_double(), 0.5);
  EXPECT_EQ((*c)->metadata("a.list")->as_ints(), (std::vector<int64_t>{-1, 2, 3}));
  EXPECT_EQ((*c)->metadata("a.words")->strings[1], "yz");
  EXPECT_EQ((*c)->metadata("a.words")->as_ints(), std::nullopt);
  EXPECT_EQ((*c)->metadata("none"), nullptr);
  EXPECT_EQ((*c)->metadata_keys().size(), 5u);
  EXPECT_EQ((*c)->side_file("config.json").status().code(), Code::kNotFound);
  EXPECT_EQ((*c)->side_file("../x").status().code(), Code::kInvalidArgument);
}

TEST_F(Formats, SafetensorsIsIndexed) {
  auto c = open_checkpoint(*files_, write("m.safetensors", safetensors_of(kGoodHeader, 22)));
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ((*c)->find("b")->dtype, DType::kBF16);
  EXPECT_EQ((*c)->bytes(*(*c)->find("a")).size(), 16u);
  EXPECT_EQ((*c)->metadata("format")->as_string(), "pt");
  EXPECT_EQ((*c)->find("c"), nullptr);
}

TEST_F(Formats, ShardsAndDirectories) {
  write("config.json", "{}");
  write("model-1.safetensors", safetensors_of(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4));
  write("model-2.safetensors", safetensors_of(R"({"b":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4));
  EXPECT_NE(open_checkpoint(*files_, dir_).status().message().find("no index"), std::string::npos);
  write("model.safetensors.index.json", R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  auto c = open_checkpoint(*files_, dir_);
  ASSERT_TRUE(c.ok()) << c.status().message();
  EXPECT_EQ((*c)->files().size(), 2u);
  EXPECT_EQ((*c)->find("b")->file, 1);
  EXPECT_EQ(*(*c)->side_file("config.json"), "{}");
  write("model.safetensors.index.json",
        R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors","c":"model-2.safetensors"}})");
  EXPECT_NE(open_checkpoint(*files_, dir_).status().message().find("'c' is promised"), std::string::npos);
  write("model.safetensors.index.json", R"({"weight_map":{"a":"../x.safetensors"}})");
  EXPECT_EQ(open_checkpoint(*files_, dir_).status().code(), Code::kInvalidArgument);
}

TEST_F(Formats, BadSafetensorsAreRefusedByName) {
  const auto entry = [](const std::string& body) { return safetensors_of("{\"w\":" + body + "}", 16); };
  const std::pair<std::string, std::string> cases[] = {
      {entry(R"({"dtype":"F32","shape":[2,2],"data_offsets":[0,20]})"), "outside of 16 bytes"},
      {entry(R"({"dtype":"F32","shape":[2,2],"data_offsets":[8,4]})"), "outside of 16 bytes"},
      {entry(R"({"dtype":"F32","shape":[2,2],"data_offsets":[-4,12]})"), "outside of 16 bytes"},
      {entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,16]})"), "takes 12"},
      {entry(R"({"dtype":"F31","shape":[2,2],"data_offsets":[0,16]})"), "dtype 'F31'"},
      {entry(R"({"dtype":"F32","shape":[-2,-2],"data_offsets":[0,16]})"), "no natural number"},
      {entry(R"({"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,16]})"), "2^63"},
      {entry(R"({"dtype":"F32","shape":[1,1,1,1,1,1,4],"data_offsets":[0,16]})"), "7 dimensions"},
      {entry(R"({"dtype":"F32","data_offsets":[0,16]})"), "no shape"},
      {entry(R"({"shape":[4],"data_offsets":[0,16]})"), "no dtype"},
      {entry(R"({"dtype":"F32","shape":[4]})"), "data_offsets"},
      {entry("3"), "no object"},
      {safetensors_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                      2),
       "stands twice"},
      {entry(R"({"dtype":"F32\nx","shape":[4],"data_offsets":[0,16]})"), "dtype 'F32?x'"},
      {safetensors_of("[1]", 0), "no JSON object"},
      {safetensors_of("{", 0), "header"},
      {safetensors_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                      8),
       "overlap"},
      {"\1\2", "shorter than"},
      {std::string(8, '\x7F'), "header has"},
  };
  for (const auto& [bytes, text] : cases) {
    const Status s = open_status("m.safetensors", bytes);
    ASSERT_FALSE(s.ok()) << text;
    EXPECT_NE(s.message().find(text), std::string::npos) << s.message();
    EXPECT_NE(s.message().find("m.safetensors"), std::string::npos) << s.message();
  }
}

TEST_F(Formats, BadGgufIsRefusedByName) {
  const auto file = [](uint64_t tensors, uint64_t entries, const std::function<void(GgufWriter&)>& fill) {
    GgufWriter w;
    w.header(3, tensors, entries);
    fill(w);
    return w.align(32, 4096).out;
  };
  const std::pair<std::string, std::string> cases[] = {
      {"GGUX", "wrong first bytes"},
      {GgufWriter().header(1, 0, 0).out, "version 1"},
      {GgufWriter().header(3, 0, uint64_t{1} << 60).out, "do not fit"},
      {GgufWriter().header(3, uint64_t{1} << 60, 0).out, "do not fit"},
      {file(0, 1, [](GgufWriter& w) { w.str("k").put(99u); }), "unknown type 99"},
      {file(0, 1, [](GgufWriter& w) { w.str("k").put(9u).put(9u).put(uint64_t{1}); }), "arrays of arrays"},
      {file(0, 1, [](GgufWriter& w) { w.str("k").put(9u).put(4u).put(uint64_t{1} << 62); }), "longer than the file"},
      {file(0, 2, [](GgufWriter& w) { w.str("k").put(4u).put(1u).str("k").put(4u).put(1u); }), "stands twice"},
      {file(0, 1, [](GgufWriter& w) { w.str("general.alignment").put(4u).put(3u); }), "power of two"},
      {file(0, 1, [](GgufWriter& w) { w.str("general.alignment").put(8u).str("32"); }), "power of two"},
      {file(1, 0,
            [](GgufWriter& w) {
              w.tensor("t", {1, 1, 1, 1, 1}, 0, 0);
            }),
       "5 dimensions"},
      {file(1, 0, [](GgufWriter& w) { w.tensor("t", {0}, 0, 0); }), "extent of 0"},
      {file(1, 0,
            [](GgufWriter& w) {
              w.tensor("t", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0);
            }),
       "extent"},
      {file(1, 0, [](GgufWriter& w) { w.tensor("t", {32}, 77, 0); }), "type 77"},
      {file(1, 0, [](GgufWriter& w) { w.tensor("t", {33}, 8, 0); }), "no multiple"},
      {file(1, 0, [](GgufWriter& w) { w.tensor("t", {32}, 0, 8); }), "not at a multiple"},
      {file(1, 0, [](GgufWriter& w) { w.tensor("t", {1 << 20}, 0, 0); }), "cut short"},
      {file(1, 0, [](GgufWriter& w) { w.tensor("t", {32}, 0, uint64_t{1} << 63); }), "cut short"},
      {file(2, 0, [](GgufWriter& w) { w.tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32); }), "stands twice"},
      {file(2, 0, [](GgufWriter& w) { w.tensor("t", {16}, 0, 0).tensor("u", {8}, 0, 32); }), "overlap"},
      {file(0, 1, [](GgufWriter& w) { w.str("split.count").put(2u).put(uint16_t{2}); }), "one part of a model"},
      {file(1, 0, [](GgufWriter& w) { w.tensor("a\nb", {33}, 8, 0); }), "tensor 'a?b'"},
  };
  for (const auto& [bytes, text] : cases) {
    const Status s = open_status("m.gguf", bytes);
    ASSERT_FALSE(s.ok()) << text;
    EXPECT_NE(s.message().find(text), std::string::npos) << s.message();
    EXPECT_NE(s.message().find("m.gguf"), std::string::npos) << s.message();
  }
}

TEST_F(Formats, EveryTruncationIsAnAnswer) {
  const std::string gguf = good_gguf();
  for (size_t n = 0; n < gguf.size(); ++n) EXPECT_FALSE(open_status("m.gguf", gguf.substr(0, n)).ok()) << n;
  const std::string st = safetensors_of(kGoodHeader, 22);
  for (size_t n = 0; n < st.size(); ++n) EXPECT_FALSE(open_status("m.safetensors", st.substr(0, n)).ok()) << n;
}

// A sparse file of 8 GiB that promises as many entries as could fit must not cost more than it holds.
TEST_F(Formats, CountsAloneCostNoMemory) {
  for (const bool array : {false, true}) {
    GgufWriter w;
    w.header(3, array ? 0 : uint64_t{1} << 28, array ? 1 : 0);
    if (array) w.str("k").put(9u).put(8u).put(uint64_t{1} << 29);
    const std::string path = write("sparse.gguf", w.out);
    std::filesystem::resize_file(path, uint64_t{8} << 30);
    const auto begin = std::chrono::steady_clock::now();
    const Status s = open_checkpoint(*files_, path).status();
    EXPECT_FALSE(s.ok());
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 5.0) << s.message();
  }
}

TEST_F(Formats, UnknownPathsSayWhatIsRead) {
  EXPECT_EQ(open_checkpoint(*files_, dir_ + "/none").status().code(), Code::kNotFound);
  const Status s = open_checkpoint(*files_, write("notes.txt", "hello")).status();
  EXPECT_EQ(s.code(), Code::kInvalidArgument);
  EXPECT_NE(s.message().find("GGUF"), std::string::npos);
  EXPECT_EQ(open_checkpoint(*files_, dir_).status().code(), Code::kInvalidArgument);
  write("a.gguf", good_gguf());
  EXPECT_TRUE(open_checkpoint(*files_, dir_).ok());
  write("golden.safetensors", safetensors_of(kGoodHeader, 22));
  EXPECT_EQ((*open_checkpoint(*files_, dir_))->format(), "gguf");
  write("b.gguf", good_gguf());
  EXPECT_NE(open_checkpoint(*files_, dir_).status().message().find("several .gguf files"), std::string::npos);
}

TEST_F(Formats, FaultsBecomeErrors) {
  const std::string path = write("m.gguf", good_gguf());
  FaultyFileSystem faulty(files_.get());
  int failed = 0;
  for (int n = 1; n < 12; ++n) {
    faulty.fail_nth(n, Code::kUnavailable);
    auto c = open_checkpoint(faulty, path);
    failed += c.ok() ? 0 : 1;
  }
  EXPECT_GE(failed, 2);
  faulty.fail_nth(0, Code::kOk);
  EXPECT_TRUE(open_checkpoint(faulty, path).ok());
}

TEST_F(Formats, AHundredThousandTensorsOpenInHalfASecond) {
  constexpr int kCount = 100'000;
  GgufWriter w;
  w.header(3, kCount, 0);
  std::string header = "{";
  for (int i = 0; i < kCount; ++i) {
    const std::string name = "blk." + std::to_string(i / 10) + ".weight." + std::to_string(i);
    w.tensor(name, {8}, 0, static_cast<uint64_t>(i) * 32);
    const std::string from = std::to_string(i * 32), to = std::to_string(i * 32 + 32);
    header += (i ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[8],"data_offsets":[)" + from + "," + to + "]}";
  }
  const std::string gguf = write("big.gguf", w.align(32, 32 * kCount).out);
  const std::string st = write("big.safetensors", safetensors_of(header + "}", 32 * kCount));
  for (const std::string& path : {gguf, st}) {
    double best = 1e9;  // of three: the machine is not ours alone
    for (int i = 0; i < 3; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      auto c = open_checkpoint(*files_, path);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      ASSERT_TRUE(c.ok()) << c.status().message();
      EXPECT_EQ((*c)->tensors().size(), size_t{kCount});
    }
    std::printf("%s: %d tensors in %.3f s\n", path.c_str(), kCount, best);
    EXPECT_LT(best, 0.5);
  }
}

TEST(FormatsFixtures, EveryFamilyOpens) {
  const char* root = std::getenv("BORA_FIXTURES");
  const std::string base = std::string(root ? root : BORA_SOURCE_DIR "/../shared") + "/fixtures/families";
  if (!std::filesystem::exists(base + "/index.json")) GTEST_SKIP() << "fixture families is absent";
  auto files = make_os_file_system();
  int opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(base)) {
    if (!entry.is_directory() || !std::filesystem::exists(entry.path() / "golden.json")) continue;
    const std::string name = entry.path().filename().string();
    std::string path = entry.path().string();
    if (name.rfind("gguf-", 0) == 0)
      path += "/model.gguf";
    else if (name.rfind("lora-", 0) == 0)
      path += "/adapter_model.safetensors";
    else
      path += "/model.safetensors";
    auto c = open_checkpoint(*files, path);
    ASSERT_TRUE(c.ok()) << c.status().message();
    uint64_t bytes = 0;
    for (const TensorEntry& t : (*c)->tensors()) bytes += (*c)->bytes(t).size();
    EXPECT_GT((*c)->tensors().size(), 1u) << name;
    EXPECT_GT(bytes, 1000u) << name;
    ++opened;
  }
  EXPECT_GE(opened, 79);
}

}  // namespace
}  // namespace bora::formats
