#include "base/status.h"

#include <gtest/gtest.h>

namespace bora {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return invalid_argument("odd number");
  return n / 2;
}

Result<int> quarter(int n) {
  BORA_ASSIGN(int h, half(n));
  BORA_ASSIGN_CONTEXT(int q, half(h), "second step");
  return q;
}

Status check_quarter(int n) {
  BORA_TRY_CONTEXT(quarter(n).status(), "quarter");
  return {};
}

TEST(Status, OkIsEmpty) {
  Status s;
  EXPECT_TRUE(s.ok());
  EXPECT_EQ(s.code(), Code::kOk);
  EXPECT_EQ(s.message(), "");
  EXPECT_EQ(std::move(s).with_context("x").to_string(), "OK");
  EXPECT_EQ(sizeof(Status), sizeof(void*));
}

TEST(Status, ContextGrowsOutwards) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(3).status().message(), "odd number");
  EXPECT_EQ(quarter(6).status().message(), "second step: odd number");
  EXPECT_EQ(check_quarter(6).to_string(), "INVALID_ARGUMENT: quarter: second step: odd number");
  EXPECT_TRUE(check_quarter(4).ok());
}

TEST(Status, CopyIsIndependent) {
  Status a = not_found("a");
  Status b = a;
  b = std::move(b).with_context("b");
  EXPECT_EQ(a.message(), "a");
  EXPECT_EQ(b.message(), "b: a");
  EXPECT_EQ(b.code(), Code::kNotFound);
}

TEST(Result, MovesItsValue) {
  Result<std::unique_ptr<int>> r(std::make_unique<int>(7));
  std::unique_ptr<int> p = *std::move(r);
  EXPECT_EQ(*p, 7);
}

TEST(CheckDeath, NamesPlaceAndText) {
  EXPECT_DEATH(BORA_CHECK(1 == 2, "numbers differ"), "status_test.cc:[0-9]+: check failed: 1 == 2 .numbers differ.");
  EXPECT_DEATH(half(3).value(), "odd number");
}

}  // namespace
}  // namespace bora
