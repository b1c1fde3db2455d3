bool is_llama = false;
