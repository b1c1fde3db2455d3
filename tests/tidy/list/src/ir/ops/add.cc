const Op kAdd{};
