bora_module(NAME net DEPS base LIBS Threads::Threads)
