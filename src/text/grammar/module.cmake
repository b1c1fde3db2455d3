bora_module(NAME text/grammar DEPS base text LIBS utf8proc)
