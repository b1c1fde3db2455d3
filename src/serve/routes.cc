// The list of routes.
#include "serve/route.h"

namespace bora::serve {

extern const Route kChatCompletions, kCompletions, kTokenize, kDetokenize, kModels, kModel, kHealth, kHealthLive,
    kHealthReady, kMetrics, kVersion, kProps, kHelp, kOpenApi;

namespace {
const Route* const kRoutes[] = {&kChatCompletions, &kCompletions, &kTokenize,   &kDetokenize,  &kModels,
                                &kModel,           &kHealth,      &kHealthLive, &kHealthReady, &kMetrics,
                                &kVersion,         &kProps,       &kHelp,       &kOpenApi};
}  // namespace

std::span<const Route* const> routes() { return kRoutes; }

}  // namespace bora::serve
