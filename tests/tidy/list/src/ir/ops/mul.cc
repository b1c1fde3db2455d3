const Op kMul{};
