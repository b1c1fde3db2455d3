// The list of verbs.
#include "app/verb.h"

namespace bora::app {

extern const Verb kInfo, kLogits, kTokenize, kDetokenize, kRender, kParse;

namespace {
const Verb* const kVerbs[] = {&kInfo, &kLogits, &kTokenize, &kDetokenize, &kRender, &kParse};
}  // namespace

std::span<const Verb* const> verbs() { return kVerbs; }

}  // namespace bora::app
