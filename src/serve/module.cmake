bora_module(NAME serve DEPS base net text text/tokenizer text/template text/chat LIBS crypto)
