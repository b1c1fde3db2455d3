bora_module(NAME quant DEPS base tensor OPTIONS -ffp-contract=off)
