bora_module(NAME kv)
