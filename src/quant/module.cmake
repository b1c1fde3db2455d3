bora_module(NAME quant DEPS base tensor)
