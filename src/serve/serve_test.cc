#include <gtest/gtest.h>
TEST(Serve, Builds) { EXPECT_EQ(1, 1); }
