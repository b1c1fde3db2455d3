// The list of verbs.
#include "app/verb.h"

namespace bora::app {

extern const Verb kServe, kRun, kChat, kBench, kInfo, kLogits, kTokenize, kDetokenize, kRender, kParse, kCompletion,
    kManual;

namespace {
const Verb* const kVerbs[] = {&kServe,    &kRun,        &kChat,   &kBench, &kInfo,       &kLogits,
                              &kTokenize, &kDetokenize, &kRender, &kParse, &kCompletion, &kManual};
}  // namespace

std::span<const Verb* const> verbs() { return kVerbs; }

}  // namespace bora::app
