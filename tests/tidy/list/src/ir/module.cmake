bora_module(NAME ir)
