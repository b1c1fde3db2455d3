bora_module(NAME serve)
