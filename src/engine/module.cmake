bora_module(NAME engine DEPS base tensor quant formats ir model device kv sched text text/tokenizer text/template text/chat)
