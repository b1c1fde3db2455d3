bora_module(NAME misc)
