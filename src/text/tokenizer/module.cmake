# -Wno-restrict: g++ 12 warns without cause where strings are joined.
bora_module(NAME text/tokenizer DEPS base text LIBS pcre2-8 utf8proc simdjson TEST_LIBS lzma crypto OPTIONS -O3 -Wno-restrict)
