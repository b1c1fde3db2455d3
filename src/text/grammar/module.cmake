bora_module(NAME text/grammar DEPS base text)
