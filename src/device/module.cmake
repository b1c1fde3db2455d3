bora_module(NAME device DEPS base tensor quant ir)
