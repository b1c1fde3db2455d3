const Op* const kOps[] = {&kAdd};
