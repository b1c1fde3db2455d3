bora_module(NAME text/tokenizer DEPS base text LIBS pcre2-8 utf8proc)
