// The list of ops.
#include "ir/ops.h"

namespace bora::ir {

extern const Op kEmbed, kLinear, kHead, kNorm, kAdd, kScale, kActivationGate, kRope, kKvAppend, kAttention,
    kGatherRows, kAddNorm;

namespace {
const Op* const kOps[] = {&kEmbed,          &kLinear, &kHead,     &kNorm,      &kAdd,        &kScale,
                          &kActivationGate, &kRope,   &kKvAppend, &kAttention, &kGatherRows, &kAddNorm};
}  // namespace

std::span<const Op* const> ops() { return kOps; }

const Op* find_op(std::string_view name) {
  for (const Op* op : kOps) {
    if (op->name == name) return op;
  }
  return nullptr;
}

}  // namespace bora::ir
