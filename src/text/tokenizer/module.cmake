# g++ 12 warns without cause (-Wrestrict) where strings are joined.
set(tokenizer_options -O3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND tokenizer_options -Wno-restrict)
endif()
bora_module(NAME text/tokenizer DEPS base text LIBS pcre2-8 utf8proc simdjson TEST_LIBS lzma crypto OPTIONS ${tokenizer_options})

# The comparison with the reference library, run by hand: tests/text/compare_tokenizers.py
add_executable(text_tok_ids EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/text/tok_ids.cc)
target_link_libraries(text_tok_ids PRIVATE bora_text_tokenizer Threads::Threads)
