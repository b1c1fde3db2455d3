bora_module(NAME text/template DEPS base text LIBS utf8proc)
