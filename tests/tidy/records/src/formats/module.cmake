bora_module(NAME formats)
