bora_module(NAME text/chat)
