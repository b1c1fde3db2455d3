bora_module(NAME text/chat DEPS base text)
