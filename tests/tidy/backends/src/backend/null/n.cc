int n() { return 0; }
