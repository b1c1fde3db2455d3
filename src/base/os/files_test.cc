#include "base/os/files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

namespace bora {
namespace {

class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bora_files_XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~Files() override { std::filesystem::remove_all(dir_); }
  std::string dir_;
  std::unique_ptr<FileSystem> fs_ = make_os_file_system();
};

TEST_F(Files, WriteReadMapList) {
  const std::string path = dir_ + "/a";
  ASSERT_TRUE(fs_->write_atomic(path, "one").ok());
  ASSERT_TRUE(fs_->write_atomic(path, "second").ok());
  EXPECT_EQ(*fs_->read(path, 100), "second");
  EXPECT_EQ(fs_->read(path, 5).status().code(), Code::kResourceExhausted);
  auto map = fs_->map(path);
  ASSERT_TRUE(map.ok());
  EXPECT_EQ((*map)->bytes().size(), 6u);
  EXPECT_EQ(std::to_integer<char>((*map)->bytes()[5]), 'd');
  (*map)->will_need(0, 6);
  (*map)->dont_need(0, 1 << 30);
  EXPECT_EQ(std::to_integer<char>((*map)->bytes()[0]), 's');
  ASSERT_TRUE(fs_->write_atomic(dir_ + "/0empty", "").ok());
  EXPECT_EQ((*fs_->map(dir_ + "/0empty"))->bytes().size(), 0u);
  EXPECT_EQ(*fs_->list(dir_), (std::vector<std::string>{"0empty", "a"}));
  EXPECT_TRUE(fs_->info(dir_)->is_directory);
}

TEST_F(Files, ErrorsNameThePath) {
  const Status s = fs_->map(dir_ + "/none").status();
  EXPECT_EQ(s.code(), Code::kNotFound);
  EXPECT_NE(s.message().find(dir_ + "/none"), std::string::npos);
  EXPECT_EQ(fs_->map(dir_).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_->read(dir_, 10).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(fs_->write_atomic(dir_ + "/no/such/folder", "x").ok());
  // A pipe that nobody writes to is refused at once.
  ASSERT_EQ(::mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(fs_->map(dir_ + "/pipe").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fs_->read(dir_ + "/pipe", 10).status().code(), Code::kInvalidArgument);
}

TEST_F(Files, FaultsComeWhenAskedFor) {
  ASSERT_TRUE(fs_->write_atomic(dir_ + "/a", "x").ok());
  FaultyFileSystem faulty(fs_.get());
  faulty.fail_nth(2, Code::kDataLoss);
  EXPECT_TRUE(faulty.read(dir_ + "/a", 9).ok());
  EXPECT_EQ(faulty.map(dir_ + "/a").status().code(), Code::kDataLoss);
  EXPECT_TRUE(faulty.map(dir_ + "/a").ok());
  EXPECT_EQ(faulty.calls(), 3);
}

}  // namespace
}  // namespace bora
