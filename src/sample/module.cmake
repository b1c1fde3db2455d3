bora_module(NAME sample DEPS base tensor quant ir)
