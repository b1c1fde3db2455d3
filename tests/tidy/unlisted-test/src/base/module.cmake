bora_module(NAME base)
