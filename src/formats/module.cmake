bora_module(NAME formats DEPS base tensor quant LIBS simdjson)
