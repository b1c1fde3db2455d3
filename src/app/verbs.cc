// The list of verbs.
#include "app/verb.h"

namespace bora::app {

extern const Verb kRun, kBench, kInfo, kLogits, kTokenize, kDetokenize, kRender, kParse, kCompletion, kManual, kServe;

namespace {
const Verb* const kVerbs[] = {&kServe,      &kRun,    &kBench, &kInfo,       &kLogits, &kTokenize,
                              &kDetokenize, &kRender, &kParse, &kCompletion, &kManual};
}  // namespace

std::span<const Verb* const> verbs() { return kVerbs; }

}  // namespace bora::app
