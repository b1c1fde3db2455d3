bora_module(NAME backend/null DEPS base tensor quant ir device)
