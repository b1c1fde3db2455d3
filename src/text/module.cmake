bora_module(NAME text DEPS base)
