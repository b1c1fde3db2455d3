const char* p = "/work/x";
