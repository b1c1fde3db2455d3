# g++ 12 warns without cause (-Wrestrict) where strings are joined.
set(tokenizer_options -O3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND tokenizer_options -Wno-restrict)
endif()
bora_module(NAME text/tokenizer DEPS base text LIBS pcre2-8 utf8proc simdjson TEST_LIBS lzma crypto OPTIONS ${tokenizer_options})

# The comparison with the reference libraries: tests/text/compare_tokenizers.py by hand, and the group text-full.
if(BORA_TESTS)
  add_executable(text_tok_ids ${CMAKE_SOURCE_DIR}/tests/text/tok_ids.cc)
  target_link_libraries(text_tok_ids PRIVATE bora_text_tokenizer lzma crypto gtest Threads::Threads)
  target_compile_definitions(text_tok_ids PRIVATE BORA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  bora_on_demand_group(NAME text-full COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/text/full.py ENV BORA_BUILD=${CMAKE_BINARY_DIR})
endif()
