const char* kPath = "/tmp/x";
