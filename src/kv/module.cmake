bora_module(NAME kv DEPS base)
