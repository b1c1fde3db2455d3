bora_module(NAME app)
