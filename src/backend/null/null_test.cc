// What any driver relies on, on the smallest backend: order, bounds, one result a pick.
#include "backend/null/null.h"

#include <gtest/gtest.h>

#include "ir/builder.h"

namespace bora::null {
namespace {

TEST(Null, OpensByNameOnlyAndPlansNothing) {
  EXPECT_FALSE(kBackend.computes);
  std::string missing;
  auto devices = kBackend.open({}, &missing);
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 1u);
  const auto plan = (*devices)[0]->plan({}, {}, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->total(), 0u);
  EXPECT_EQ((*devices)[0]->compile({}, {}, {}).status().code(), Code::kInvalidArgument);
}

TEST(Null, StepsComeBackInOrderWithAResultAPick) {
  ir::Graph graph;
  graph.values.push_back({DType::kF32, {{ir::Sym::kRows, 1}, {ir::Sym::kNone, 50}}, "logits"});
  graph.entries.push_back({"forward", 0, 0, {{"logits", ir::Value{0}}}});
  std::string missing;
  auto device = std::move((*kBackend.open({}, &missing))[0]);
  device::Bounds bounds;
  bounds.tokens = 4;
  bounds.seqs = 2;
  bounds.in_flight = 2;
  auto program = *device->compile(graph, bounds, {});
  auto stream = *device->stream();
  const int32_t ids[1] = {3}, rows[1] = {0};
  device::PickRow picks[2];
  picks[0].position = 7;
  picks[1].target = 12;
  device::StepPatch p;
  p.tokens = p.seqs = 1;
  p.ids = ids;
  p.rows = rows;
  p.picks = picks;
  device::StepResult out;
  for (int64_t id : {1, 2}) {
    p.id = id;
    ASSERT_TRUE(program->launch("forward", p, *stream).ok());
    ASSERT_TRUE(program->launch("pick", p, *stream).ok());
  }
  p.id = 3;
  EXPECT_FALSE(program->launch("forward", p, *stream).ok()) << "two are in flight";
  EXPECT_FALSE(program->collect(2, &out).ok()) << "the first comes first";
  ASSERT_TRUE(program->collect(1, &out).ok());
  ASSERT_EQ(out.rows.size(), 2u);
  EXPECT_EQ(out.rows[0].id, 7 * 7919 % 50);
  EXPECT_EQ(out.rows[1].id, 12);
  EXPECT_EQ(program->logits().size(), 50u);
  p.tokens = 5;
  EXPECT_FALSE(program->launch("forward", p, *stream).ok());
}

}  // namespace
}  // namespace bora::null
