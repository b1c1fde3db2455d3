# -Wno-restrict: g++ 12 warns without cause where strings are joined.
bora_module(NAME text/tokenizer DEPS base text LIBS pcre2-8 utf8proc simdjson TEST_LIBS lzma crypto OPTIONS -O3 -Wno-restrict)

# The comparison with the reference library, run by hand: tests/text/compare_tokenizers.py
add_executable(text_tok_ids EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/text/tok_ids.cc)
target_link_libraries(text_tok_ids PRIVATE bora_text_tokenizer Threads::Threads)
