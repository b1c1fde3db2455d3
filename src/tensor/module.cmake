bora_module(NAME tensor DEPS base)
