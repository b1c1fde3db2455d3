bora_module(NAME sample DEPS base)
