// Prompts of chats: messages checked, rendered by the model's template and encoded. What users wrote never becomes a
// control token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/params.h"

namespace bora::serve {

struct ChatPrompt {
  std::string text;
  std::vector<int32_t> ids;
  bool reasoning_open = false;  // the rendered prompt ends behind an opening think tag
};

std::span<const FieldSpec> chat_prompt_fields();

// Reads messages, chat_template_kwargs, reasoning_effort, documents, add_generation_prompt, continue_final_message.
// On a fault fields->ok() is false.
ChatPrompt read_chat_prompt(Services& services, const ServedModel& model, Fields* fields);

}  // namespace bora::serve
