bora_module(NAME ir DEPS base tensor quant)
