#include <gtest/gtest.h>

#include "backend/cuda/kernels/common/device_info.h"

namespace bora::cuda {
namespace {

TEST(DeviceInfo, ReadsTheFirstDevice) {
  const Result<DeviceInfo> info = query_device(0);
  if (!info.ok()) GTEST_SKIP() << info.status().message();
  EXPECT_GT(info->sms, 0);
  EXPECT_GT(info->shared_bytes_block, 48 * 1024);
}

TEST(DeviceInfo, RefusesAnOrdinalThatDoesNotExist) {
  const Result<DeviceInfo> info = query_device(1 << 20);
  EXPECT_FALSE(info.ok());
}

}  // namespace
}  // namespace bora::cuda
