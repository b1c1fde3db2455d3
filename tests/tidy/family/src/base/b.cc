bool x = name == "llama";
