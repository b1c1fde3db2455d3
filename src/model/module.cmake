bora_module(NAME model DEPS base tensor quant ir formats TEST_LIBS crypto)
