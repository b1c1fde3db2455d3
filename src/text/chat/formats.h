// The records of formats/*.cc; formats.cc lists them in order of preference.
#pragma once

#include "text/chat/chat.h"

namespace bora::text {

extern const AnswerFormat kGptOss, kKimiK2, kDeepseekV3, kDeepseekV31, kMinimaxM2, kGlm45, kQwen3Coder, kGemma4,
    kLfm2, kMistralV11, kMistralV3, kPhi4Mini, kHermes, kGranite3, kLlama3Json, kLlama3PythonTag, kPlain;

}  // namespace bora::text
